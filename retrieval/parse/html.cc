#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/sentences.h"
#include "common/strings.h"
#include "retrieval/parse/html_pieces.h"
#include "retrieval/parse/html_tree.h"
#include "retrieval/parse/parsers.h"
#include "retrieval/parse/source_runs.h"

namespace cairn::retrieval {
namespace {

bool IsHtmlSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

// Lays the pieces out as text. White space is collapsed outside of code: one character of it stays
// as it is, so that text goes on equalling the source; more become one space. Blocks are parted by
// a blank line, list items and table rows by a line break, table cells by a bar.
class Layout {
 public:
  explicit Layout(ParsedDocument* out) : out_(out) {}

  void Add(const HtmlPiece& piece, const HtmlUnit& unit) {
    if (piece.atom.source_begin < source_end_) return;  // never, save in broken trees
    source_end_ = piece.atom.source_begin + piece.atom.source_size;
    if (!started_ || piece.unit != unit_index_) {
      CloseUnit();
      started_ = true;
      unit_index_ = piece.unit;
      unit_ = unit;
    }
    if (piece.cell) {
      cells_.push_back({piece.atom.source_begin, source_end_});
      space_ = {};
      return;
    }
    const HtmlAtom& atom = piece.atom;
    if (unit_.kind == BlockKind::kCode) {
      Emit(atom.text, atom.source_begin, atom.source_size, atom.replaced);
    } else if (atom.replaced) {
      if (atom.text.size() == 1 && IsHtmlSpace(atom.text[0])) {
        AddSpace(atom.source_begin, atom.source_size, atom.text[0]);
      } else {
        Emit(atom.text, atom.source_begin, atom.source_size, true);
      }
    } else {
      AddWords(atom);
    }
  }

  void CloseUnit() {
    space_ = {};
    cells_.clear();
    if (!std::exchange(open_, false)) return;
    Block block;
    block.kind = unit_.kind;
    block.level = unit_.level;
    block.text = {unit_begin_, out_->text.size()};
    if (!TrimToLines(out_->text, &block.text)) return;
    const std::string text = out_->text.substr(block.text.begin, block.text.size());
    const bool same_table = unit_.kind == BlockKind::kTable && last_table_ == unit_.table &&
                            !out_->blocks.empty() && out_->blocks.back().kind == BlockKind::kTable;
    last_table_ = unit_.table;
    if (same_table) {
      out_->blocks.back().text.end = block.text.end;
      return;
    }
    if (unit_.kind == BlockKind::kTable && unit_.header) block.table_header = text;
    if (unit_.kind == BlockKind::kHeading) block.heading = text;
    out_->blocks.push_back(std::move(block));
  }

  size_t num_runs() const { return runs_.size(); }
  SourceMap TakeMap() { return std::move(runs_).Build(); }

 private:
  // White space not yet written, because nothing may follow it.
  struct Space {
    uint64_t begin = 0;
    uint64_t end = 0;  // 0: none
    char first = 0;
    bool line_break = false;  // a <br> is in it
  };

  void AddWords(const HtmlAtom& atom) {
    for (size_t pos = 0; pos < atom.text.size();) {
      if (IsHtmlSpace(atom.text[pos])) {
        AddSpace(atom.source_begin + pos, 1, atom.text[pos]);
        ++pos;
        continue;
      }
      size_t end = pos;
      while (end < atom.text.size() && !IsHtmlSpace(atom.text[end])) ++end;
      Emit(atom.text.substr(pos, end - pos), atom.source_begin + pos, end - pos, false);
      pos = end;
    }
  }

  void AddSpace(uint64_t begin, uint64_t size, char c) {
    if (space_.end == 0) {
      space_.begin = begin;
      space_.first = c;
    }
    space_.end = begin + size;
    space_.line_break = space_.line_break || (c == '\n' && size > 1);
  }

  void Emit(std::string_view text, uint64_t source_begin, uint64_t source_size, bool replaced) {
    if (!open_) {
      if (!out_->text.empty()) {
        const Block* last = out_->blocks.empty() ? nullptr : &out_->blocks.back();
        const bool next_row = unit_.kind == BlockKind::kTable && last_table_ == unit_.table;
        const bool next_item = unit_.kind == BlockKind::kListItem && last != nullptr &&
                               last->kind == BlockKind::kListItem;
        out_->text += next_row || next_item ? "\n" : "\n\n";
      }
      open_ = true;
      unit_begin_ = out_->text.size();
      space_ = {};
    }
    EmitPending();
    if (replaced) {
      runs_.Replace(out_->text.size(), text.size(), source_begin, source_size);
    } else {
      runs_.Copy(out_->text.size(), source_begin, source_size);
    }
    StrAppend(&out_->text, text);
  }

  void EmitPending() {
    const Space space = std::exchange(space_, {});
    if (!cells_.empty()) {
      for (const Span& tag : cells_) {
        const std::string_view bar = out_->text.size() == unit_begin_ ? "| " : " | ";
        runs_.Replace(out_->text.size(), bar.size(), tag.begin, tag.size());
        StrAppend(&out_->text, bar);
      }
      cells_.clear();
      return;
    }
    if (space.end == 0) return;
    const bool one_line = unit_.kind == BlockKind::kTable || unit_.kind == BlockKind::kHeading;
    const bool line_end = space.first == '\n' || space.first == '\r';
    const uint64_t size = space.end - space.begin;
    if (size == 1 && !(one_line && line_end)) {
      runs_.Copy(out_->text.size(), space.begin, 1);
      out_->text += space.first;
      return;
    }
    // A single byte that is written as another has no run: it would claim equality.
    if (size > 1) runs_.Replace(out_->text.size(), 1, space.begin, size);
    out_->text += space.line_break && !one_line ? '\n' : ' ';
  }

  ParsedDocument* const out_;
  RunBuilder runs_;
  HtmlUnit unit_;
  size_t unit_index_ = 0;
  uint64_t unit_begin_ = 0;  // in the text
  uint64_t source_end_ = 0;
  uint32_t last_table_ = 0;
  std::vector<Span> cells_;  // tags of the cells begun since the last word
  bool started_ = false;
  bool open_ = false;  // the unit has text
  Space space_;
};

std::string OneLine(std::string_view text) {
  std::string out;
  bool space = false;
  for (const char c : text) {
    if (IsHtmlSpace(c)) {
      space = !out.empty();
      continue;
    }
    if (std::exchange(space, false)) out += ' ';
    out += c;
  }
  return out;
}

}  // namespace

absl::StatusOr<ParsedDocument> ParseHtml(DecodedText decoded, const ParseLimits& limits) {
  ParsedDocument out;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<HtmlTree> tree,
                         HtmlTree::Parse(decoded.text, limits.max_depth));
  const HtmlContent content = CollectContent(decoded.text, tree->output());
  Layout layout(&out);
  for (const HtmlPiece& piece : content.pieces) {
    layout.Add(piece, content.units[piece.unit]);
    if (layout.num_runs() > limits.max_map_runs) {
      return WithReason(absl::InvalidArgumentError(StrCat("the HTML has more than ",
                                                          limits.max_map_runs, " pieces of text")),
                        kReasonTooLarge);
    }
  }
  layout.CloseUnit();
  out.map = Compose(layout.TakeMap(), decoded.map);
  out.title = OneLine(content.title);
  for (const Block& block : out.blocks) {
    if (out.title.empty() && block.kind == BlockKind::kHeading) out.title = block.heading;
  }
  return out;
}

}  // namespace cairn::retrieval
