#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/sentences.h"
#include "common/strings.h"
#include "retrieval/parse/parsers.h"
#include "retrieval/parse/source_runs.h"

namespace cairn::retrieval {
namespace {

// Longer heading texts are kept as they stand, markup included.
constexpr size_t kMaxHeadingBytes = 1024;
// More columns than any table has; cmark's table rows take time quadratic in them.
constexpr int kMaxPipes = 256;

// Byte offset of the start of each line, as cmark counts lines (\n, \r\n or a lone \r), then
// text.size().
std::vector<size_t> LineStarts(std::string_view text) {
  std::vector<size_t> starts = {0};
  for (size_t pos = text.find_first_of("\r\n"); pos != std::string_view::npos;
       pos = text.find_first_of("\r\n", pos)) {
    pos += text.substr(pos).starts_with("\r\n") ? 2 : 1;
    starts.push_back(pos);
  }
  if (starts.back() != text.size()) starts.push_back(text.size());
  return starts;
}

// Length of the block quote and list markers that open `line`; `*depth` says how many they are,
// `*indent` the blanks between the last marker and the content.
size_t ContainerPrefix(std::string_view line, int* depth, int* indent) {
  size_t pos = 0;
  *depth = 0;
  while (true) {
    *indent = 0;
    while (pos < line.size() && (line[pos] == ' ' || line[pos] == '\t')) {
      *indent += line[pos++] == '\t' ? 4 : 1;
    }
    if (pos == line.size()) return pos;
    size_t marker = 0;
    if (line[pos] == '>') {
      marker = 1;
    } else if (line[pos] == '-' || line[pos] == '*' || line[pos] == '+') {
      marker = 1;
    } else {
      while (marker < 9 && pos + marker < line.size() && line[pos + marker] >= '0' &&
             line[pos + marker] <= '9') {
        ++marker;
      }
      const bool closed = marker > 0 && pos + marker < line.size() &&
                          (line[pos + marker] == '.' || line[pos + marker] == ')');
      if (!closed) return pos;
      ++marker;
    }
    const size_t after = pos + marker;
    if (line[pos] != '>' && after < line.size() && line[after] != ' ' && line[after] != '\t') {
      return pos;
    }
    pos = after;
    ++*depth;
  }
}

// A copy of `text`, byte for byte as long, with the characters replaced that matter only inside
// lines: cmark cannot be told to leave inline markup alone, and takes quadratic time on some of it
// ("![[]()", "<?"). Block structure stays the same, save that link definitions become paragraphs.
absl::StatusOr<std::string> BlockSkeleton(std::string_view text, const std::vector<size_t>& lines,
                                          int max_depth) {
  std::string out(text);
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::string_view line = text.substr(lines[i], lines[i + 1] - lines[i]);
    int depth, indent;
    const size_t content = ContainerPrefix(line, &depth, &indent);
    if (depth > max_depth) {
      return WithReason(
          absl::InvalidArgumentError(
              StrCat("line ", i + 1, " opens ", depth, " quotes and lists, more than ", max_depth)),
          kReasonTooDeep);
    }
    const bool wide = std::count(line.begin(), line.end(), '|') > kMaxPipes;
    for (size_t at = content; at < line.size(); ++at) {
      char* c = &out[lines[i] + at];
      const std::string_view rest = line.substr(at);
      if (*c == '[' || (*c == ']' && !rest.starts_with("]]>") && !rest.starts_with("]>")) ||
          (*c == '|' && wide)) {
        *c = 'x';
      } else if (*c == '<' && !(at == content && indent < 4) && !rest.starts_with("</")) {
        *c = 'x';
      }
    }
  }
  return out;
}

struct NodeDeleter {
  void operator()(cmark_node* node) const { cmark_node_free(node); }
};
using NodePtr = std::unique_ptr<cmark_node, NodeDeleter>;
struct ParserDeleter {
  void operator()(cmark_parser* parser) const { cmark_parser_free(parser); }
};
struct IterDeleter {
  void operator()(cmark_iter* iter) const { cmark_iter_free(iter); }
};
using IterPtr = std::unique_ptr<cmark_iter, IterDeleter>;

NodePtr ParseCommonMark(std::string_view text) {
  static std::once_flag registered;
  std::call_once(registered, cmark_gfm_core_extensions_ensure_registered);
  std::unique_ptr<cmark_parser, ParserDeleter> parser(cmark_parser_new(CMARK_OPT_DEFAULT));
  cmark_parser_attach_syntax_extension(parser.get(), cmark_find_syntax_extension("table"));
  cmark_parser_feed(parser.get(), text.data(), text.size());
  return NodePtr(cmark_parser_finish(parser.get()));
}

// The words of inline Markdown, without its markup, on one line.
std::string PlainText(std::string_view markdown) {
  if (markdown.size() > kMaxHeadingBytes) return std::string(markdown);
  NodePtr root = ParseCommonMark(markdown);
  IterPtr iter(cmark_iter_new(root.get()));
  std::string out;
  for (cmark_event_type event; (event = cmark_iter_next(iter.get())) != CMARK_EVENT_DONE;) {
    if (event != CMARK_EVENT_ENTER) continue;
    cmark_node* node = cmark_iter_get_node(iter.get());
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_TEXT || type == CMARK_NODE_CODE) {
      out += cmark_node_get_literal(node);
    } else if (type == CMARK_NODE_SOFTBREAK || type == CMARK_NODE_LINEBREAK) {
      out += ' ';
    }
  }
  return out;
}

std::string HeadingText(std::string_view source) {
  size_t begin = 0, end = source.size();
  TrimBlanks(source, &begin, &end);
  std::string_view line = source.substr(begin, end - begin);
  if (line.starts_with('#')) {
    line.remove_prefix(std::min(line.find_first_not_of('#'), line.size()));
    // A closing sequence of # counts when a blank stands before it.
    const size_t last = line.find_last_not_of('#');
    if (last != std::string_view::npos && last + 1 < line.size() &&
        (line[last] == ' ' || line[last] == '\t')) {
      line = line.substr(0, last);
    }
  } else if (const size_t underline = line.find_last_of("\r\n");
             underline != std::string_view::npos) {
    line = line.substr(0, underline);  // setext
  }
  begin = 0, end = line.size();
  TrimBlanks(line, &begin, &end);
  return PlainText(line.substr(begin, end - begin));
}

// "| a | b |" -> "a | b".
std::string TableHeader(std::string_view table) {
  std::string_view row = table.substr(0, table.find_first_of("\r\n"));
  while (!row.empty() && (row.front() == '|' || row.front() == ' ' || row.front() == '\t')) {
    row.remove_prefix(1);
  }
  while (!row.empty() && (row.back() == '|' || row.back() == ' ' || row.back() == '\t')) {
    row.remove_suffix(1);
  }
  return std::string(row);
}

// Bytes of YAML front matter at the start of `text`, 0 when there is none; its title goes to
// `*title`.
size_t FrontMatter(std::string_view text, std::string* title) {
  constexpr size_t kMaxLines = 200;
  size_t keys = 0, pos = 0;
  for (size_t number = 0; number < kMaxLines && pos < text.size(); ++number) {
    const size_t newline = std::min(text.find('\n', pos), text.size());
    std::string_view line = text.substr(pos, newline - pos);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pos = std::min(newline + 1, text.size());
    if (number == 0) {
      if (line != "---") return 0;
      continue;
    }
    if (line == "---" || line == "...") return keys > 0 ? pos : 0;
    if (line.empty() || line[0] == ' ' || line[0] == '-' || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, colon).find(' ') != line.npos) return 0;
    ++keys;
    if (line.substr(0, colon) != "title") continue;
    size_t begin = colon + 1, end = line.size();
    TrimBlanks(line, &begin, &end);
    if (end - begin >= 2 && (line[begin] == '"' || line[begin] == '\'') &&
        line[end - 1] == line[begin]) {
      ++begin, --end;
    }
    *title = std::string(line.substr(begin, end - begin));
  }
  return 0;  // never closed
}

bool HasAncestor(cmark_node* node, cmark_node_type type) {
  for (node = cmark_node_parent(node); node != nullptr; node = cmark_node_parent(node)) {
    if (cmark_node_get_type(node) == type) return true;
  }
  return false;
}

// The last line of a heading that begins on line `first` (from 1). cmark says one too many for some
// underlined headings.
int HeadingEnd(std::string_view text, const std::vector<size_t>& lines, int first, int last) {
  for (int line = first + 1; line <= last; ++line) {
    size_t begin = lines[line - 1], end = lines[line];
    TrimBlanks(text, &begin, &end);
    const std::string_view words = text.substr(begin, end - begin);
    if (!words.empty() && (words[0] == '=' || words[0] == '-') &&
        words.find_first_not_of(words[0]) == words.npos) {
      return line;
    }
  }
  return first;
}

// The leaf blocks of the tree, each over whole lines.
std::vector<Block> LeafBlocks(cmark_node* root, std::string_view text,
                              const std::vector<size_t>& lines) {
  std::vector<Block> blocks;
  const int last_line = static_cast<int>(lines.size()) - 1;
  uint64_t covered = 0;
  IterPtr iter(cmark_iter_new(root));
  for (cmark_event_type event; (event = cmark_iter_next(iter.get())) != CMARK_EVENT_DONE;) {
    if (event != CMARK_EVENT_ENTER) continue;
    cmark_node* node = cmark_iter_get_node(iter.get());
    const cmark_node_type type = cmark_node_get_type(node);
    Block block;
    if (type == CMARK_NODE_HEADING) {
      // A heading inside a quote or a list does not divide the document.
      const bool top = cmark_node_get_type(cmark_node_parent(node)) == CMARK_NODE_DOCUMENT;
      block.kind = top ? BlockKind::kHeading : BlockKind::kParagraph;
    } else if (type == CMARK_NODE_PARAGRAPH) {
      block.kind =
          HasAncestor(node, CMARK_NODE_ITEM) ? BlockKind::kListItem : BlockKind::kParagraph;
    } else if (type == CMARK_NODE_CODE_BLOCK) {
      block.kind = BlockKind::kCode;
    } else if (std::string_view(cmark_node_get_type_string(node)) == "table") {
      block.kind = BlockKind::kTable;
    } else if (type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_THEMATIC_BREAK) {
      block.kind = BlockKind::kOther;
    } else {
      continue;
    }
    cmark_iter_reset(iter.get(), node, CMARK_EVENT_EXIT);  // its children are inline
    const int first = std::clamp(cmark_node_get_start_line(node), 1, last_line);
    int last = std::clamp(cmark_node_get_end_line(node), first, last_line);
    if (type == CMARK_NODE_HEADING) last = HeadingEnd(text, lines, first, last);
    block.text = {std::max<uint64_t>(lines[first - 1], covered), lines[last]};
    if (block.text.begin >= block.text.end || !TrimToLines(text, &block.text)) continue;
    covered = lines[last];
    const std::string_view source = text.substr(block.text.begin, block.text.size());
    if (block.kind == BlockKind::kHeading) {
      block.level = cmark_node_get_heading_level(node);
      block.heading = HeadingText(source);
    } else if (block.kind == BlockKind::kTable) {
      block.table_header = TableHeader(source);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// What lies between the blocks and is not blank becomes a block of its own, so that no text is
// lost.
std::vector<Block> FillGaps(std::vector<Block> blocks, std::string_view text) {
  std::vector<Block> out;
  uint64_t covered = 0;
  auto fill = [&](uint64_t end) {
    Block gap;
    gap.kind = BlockKind::kOther;
    gap.text = {covered, end};
    if (!TrimToLines(text, &gap.text)) return;
    // cmark ends a block of raw HTML one line early: the closing line joins it.
    const std::string_view between = text.substr(covered, gap.text.begin - covered);
    if (!out.empty() && out.back().kind == BlockKind::kOther &&
        (between == "\n" || between == "\r\n" || between == "\r")) {
      out.back().text.end = gap.text.end;
    } else {
      out.push_back(std::move(gap));
    }
  };
  for (Block& block : blocks) {
    fill(block.text.begin);
    covered = block.text.end;
    out.push_back(std::move(block));
  }
  fill(text.size());
  return out;
}

}  // namespace

absl::StatusOr<ParsedDocument> ParseMarkdown(DecodedText decoded, const ParseLimits& limits) {
  ParsedDocument out;
  const size_t front = FrontMatter(decoded.text, &out.title);
  out.text = decoded.text.substr(front);
  out.map = front == 0 ? std::move(decoded.map) : CutMap(decoded.map, {front, decoded.text.size()});
  const std::vector<size_t> lines = LineStarts(out.text);
  if (lines.size() < 2) return out;
  CAIRN_ASSIGN_OR_RETURN(const std::string skeleton,
                         BlockSkeleton(out.text, lines, limits.max_depth));
  NodePtr root = ParseCommonMark(skeleton);
  out.blocks = FillGaps(LeafBlocks(root.get(), out.text, lines), out.text);
  if (out.title.empty()) {
    for (const Block& block : out.blocks) {
      if (block.kind != BlockKind::kHeading || block.heading.empty()) continue;
      if (out.title.empty()) out.title = block.heading;
      if (block.level == 1) {
        out.title = block.heading;
        break;
      }
    }
  }
  return out;
}

}  // namespace cairn::retrieval
