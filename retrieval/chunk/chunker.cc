#include "retrieval/chunk/chunker.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/chunk/language.h"
#include "retrieval/chunk/split.h"
#include "retrieval/parse/parse.h"
#include "retrieval/parse/source_runs.h"

namespace cairn::retrieval {
namespace {

// Bytes of title and headings before the text that is embedded. About 60 tokens of English or 80 of
// Chinese.
constexpr size_t kMaxContextBytes = 240;
// Longer headings and table headers are cut: every chunk of a section carries them.
constexpr size_t kMaxHeadingBytes = 256;
// A call of the token counter: small enough for a message, large enough that calls are few.
constexpr size_t kBatchTexts = 2048;
constexpr size_t kBatchBytes = 256 << 10;
// No text of this many bytes a token of the budget fits it, so it is cut without being counted.
constexpr size_t kMaxBytesPerToken = 32;
// A budget smaller than this cannot hold a sentence worth retrieving.
constexpr int kMinBudget = 8;
// Added for each seam between pieces, where a tokenizer may see a line break.
constexpr int kSeamTokens = 1;

std::string Hash128(std::string_view a, std::string_view b, uint64_t number) {
  const std::string bytes =
      StrCat(a, std::string_view("\0", 1), b, std::string_view("\0", 1), number);
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  char hex[33];
  std::snprintf(hex, sizeof(hex), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return hex;
}

std::string CutHeading(std::string_view words) {
  return std::string(words.substr(0, Utf8Floor(words, kMaxHeadingBytes)));
}

// The context line of an embedding: title and headings, or as much as fits of the innermost
// heading, the title and the headings between, in that order of worth.
std::string ContextLine(const std::vector<std::string>& path, std::string_view title) {
  std::vector<std::string_view> parts;
  if (!title.empty() && (path.empty() || path[0] != title)) parts.push_back(title);
  parts.insert(parts.end(), path.begin(), path.end());
  std::vector<size_t> by_worth;
  if (!parts.empty()) by_worth.push_back(parts.size() - 1);
  if (parts.size() > 1) by_worth.push_back(0);
  for (size_t i = parts.size(); i-- > 2;) by_worth.push_back(i - 1);
  std::vector<bool> kept(parts.size(), false);
  size_t left = kMaxContextBytes;
  for (const size_t i : by_worth) {
    std::string_view& part = parts[i];
    part = part.substr(0, Utf8Floor(part, kMaxContextBytes / 2));
    if (part.empty() || part.size() + 3 > left) continue;
    kept[i] = true;
    left -= part.size() + 3;
  }
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (kept[i]) StrAppend(&out, out.empty() ? "" : " > ", parts[i]);
  }
  return out;
}

// Calls the token counter in batches and checks what it returns.
class Counter {
 public:
  explicit Counter(const CountTokensFunction& count) : count_(count) {}

  // Learns how many tokens prefix and special tokens are. REQUIRES: before any other call.
  absl::Status Init() {
    const std::string_view one_token = "a";
    CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts, Count({one_token}));
    overhead_ = std::max(0, counts[0] - 1);
    return absl::OkStatus();
  }
  int overhead() const { return overhead_; }

  absl::StatusOr<std::vector<int>> Count(const std::vector<std::string_view>& texts) const {
    std::vector<int> out;
    out.reserve(texts.size());
    for (size_t begin = 0; begin < texts.size();) {
      size_t end = begin, bytes = 0;
      while (end < texts.size() && end - begin < kBatchTexts &&
             (end == begin || bytes + texts[end].size() <= kBatchBytes)) {
        bytes += texts[end++].size();
      }
      CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts,
                             count_(std::span(texts).subspan(begin, end - begin)));
      if (counts.size() != end - begin ||
          std::any_of(counts.begin(), counts.end(), [](int n) { return n < 0; })) {
        return WithReason(absl::InternalError(StrCat("the embedder counted tokens of ",
                                                     counts.size(), " texts out of ", end - begin)),
                          "BAD_EMBEDDER");
      }
      out.insert(out.end(), counts.begin(), counts.end());
      begin = end;
    }
    return out;
  }

 private:
  const CountTokensFunction& count_;
  int overhead_ = 0;
};

// A heading with what is under it, up to the next heading.
struct Section {
  Span text;
  std::vector<std::string> heading_path;
  std::vector<Piece> pieces;
  int hard_limit = 0;  // tokens of text that leave room for the context in the window
  int target = 0;      // tokens of text that merging aims at
};

std::vector<Section> FindSections(const ParsedDocument& document) {
  std::vector<Section> sections;
  std::vector<std::pair<int, std::string>> open;  // level and words of the headings around
  bool only_headings = false;
  for (size_t i = 0; i < document.blocks.size(); ++i) {
    const Block& block = document.blocks[i];
    const bool heading = block.kind == BlockKind::kHeading;
    const bool joins = heading && only_headings && block.level > open.back().first;
    if (sections.empty() || (heading && !joins)) {
      sections.emplace_back();
      sections.back().text.begin = block.text.begin;
    }
    Section& section = sections.back();
    section.text.end = block.text.end;
    section.pieces.push_back({block.text, block.kind, Piece::Level::kBlock, i, false, 0});
    only_headings = heading;
    if (!heading) continue;
    while (!open.empty() && open.back().first >= block.level) open.pop_back();
    open.emplace_back(block.level, CutHeading(block.heading));
    section.heading_path.clear();
    for (const auto& [level, words] : open) {
      if (!words.empty()) section.heading_path.push_back(words);
    }
  }
  return sections;
}

// A chunk before its ids: pieces of one section.
struct Draft {
  size_t section = 0;
  std::vector<Piece> pieces;
  int tokens = 0;         // of the text, prefix and special tokens included, once verified
  bool verified = false;  // the embedding text fits the window
};

class Chunker {
 public:
  Chunker(const ParsedDocument& document, const CountTokensFunction& count,
          const ChunkOptions& options)
      : document_(document), text_(document.text), counter_(count), options_(options) {}

  absl::StatusOr<std::vector<Chunk>> Run(std::string_view document_id, std::string_view sha256) {
    CAIRN_RETURN_IF_ERROR(counter_.Init());
    sections_ = FindSections(document_);
    CAIRN_RETURN_IF_ERROR(SetLimits());
    CAIRN_RETURN_IF_ERROR(SplitOversized());
    for (size_t i = 0; i < sections_.size(); ++i) Pack(i);
    CAIRN_RETURN_IF_ERROR(Verify());
    std::vector<Chunk> chunks;
    chunks.reserve(drafts_.size());
    for (size_t i = 0; i < drafts_.size(); ++i) {
      chunks.push_back(MakeChunk(drafts_[i]));
      chunks.back().ordinal = static_cast<uint32_t>(i);
      chunks.back().document_id = std::string(document_id);
      chunks.back().chunk_id = Hash128(document_id, sha256, i);
      chunks.back().parent_id = Hash128(document_id, "section", drafts_[i].section);
    }
    return chunks;
  }

 private:
  // The window less prefix, special tokens and the longest context that a chunk of the section may
  // get.
  absl::Status SetLimits() {
    std::vector<std::string> contexts;
    std::vector<size_t> owner;
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Section& section = sections_[i];
      contexts.push_back(ContextLine(section.heading_path, document_.title));
      owner.push_back(i);
      for (const Piece& piece : section.pieces) {
        if (piece.kind != BlockKind::kTable) continue;
        contexts.push_back(ContextLine(PathOf(section, piece, true), document_.title));
        owner.push_back(i);
      }
    }
    const std::vector<std::string_view> views(contexts.begin(), contexts.end());
    CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts, counter_.Count(views));
    std::vector<int> longest(sections_.size(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!contexts[i].empty()) longest[owner[i]] = std::max(longest[owner[i]], counts[i]);
    }
    for (size_t i = 0; i < sections_.size(); ++i) {
      // A context is counted with prefix and special tokens, so they are in it already.
      const int context = std::max(longest[i], counter_.overhead());
      sections_[i].hard_limit = options_.max_tokens - context - kSeamTokens;
      sections_[i].target = std::min(options_.target_tokens, sections_[i].hard_limit);
      if (sections_[i].target < kMinBudget) {
        return absl::FailedPreconditionError(
            StrCat("the embedder's window of ", options_.max_tokens, " tokens leaves ",
                   sections_[i].target, " for the text beside ", context, " of context"));
      }
    }
    return absl::OkStatus();
  }

  // Code is worth keeping whole, so it may use the window; prose is cut at the target.
  static int LimitOf(const Section& section, const Piece& piece) {
    const bool whole_code = piece.kind == BlockKind::kCode && piece.level == Piece::Level::kBlock;
    return whole_code ? section.hard_limit : section.target;
  }

  // Counts every piece, cuts those over their limit, and so on until all fit. Each round halves at
  // least.
  absl::Status SplitOversized() {
    while (true) {
      std::vector<Piece*> uncounted;
      std::vector<std::string_view> texts;
      for (Section& section : sections_) {
        for (Piece& piece : section.pieces) {
          if (piece.tokens > 0) continue;
          const size_t most = static_cast<size_t>(LimitOf(section, piece)) * kMaxBytesPerToken;
          if (piece.text.size() > most) {
            piece.tokens = static_cast<int>(piece.text.size() / 3);
            continue;
          }
          uncounted.push_back(&piece);
          texts.push_back(text_.substr(piece.text.begin, piece.text.size()));
        }
      }
      CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts, counter_.Count(texts));
      for (size_t i = 0; i < counts.size(); ++i) {
        uncounted[i]->tokens = std::max(1, counts[i] - counter_.overhead());
      }
      bool cut = false;
      for (Section& section : sections_) cut = CutOversized(&section) || cut;
      if (!cut) return absl::OkStatus();
    }
  }

  bool CutOversized(Section* section) {
    std::vector<Piece> out;
    bool cut = false;
    for (const Piece& piece : section->pieces) {
      const int limit = LimitOf(*section, piece);
      if (piece.tokens > limit) {
        // A tenth more parts than needed: cuts fall short of the ideal place.
        const size_t parts = static_cast<size_t>(int64_t{piece.tokens} * 11 / (10 * limit)) + 1;
        std::vector<Piece> children = SplitPiece(text_, piece, parts);
        if (!children.empty()) {
          out.insert(out.end(), children.begin(), children.end());
          cut = true;
          continue;
        }
      }
      out.push_back(piece);
    }
    section->pieces = std::move(out);
    return cut;
  }

  // Merges neighbours up to the target. A heading is not left alone while what follows fits the
  // window.
  void Pack(size_t index) {
    const Section& section = sections_[index];
    Draft draft{index, {}, 0, false};
    int tokens = 0;
    bool only_headings = true;
    for (const Piece& piece : section.pieces) {
      const int more = piece.tokens + kSeamTokens;
      const bool lead_in = only_headings || tokens < section.target / 4;
      const int limit = lead_in ? section.hard_limit : section.target;
      if (!draft.pieces.empty() && tokens + more > limit) {
        drafts_.push_back(std::exchange(draft, Draft{index, {}, 0, false}));
        tokens = 0;
        only_headings = true;
      }
      only_headings = only_headings && piece.kind == BlockKind::kHeading;
      tokens += more;
      draft.pieces.push_back(piece);
    }
    if (!draft.pieces.empty()) drafts_.push_back(std::move(draft));
  }

  // Counts the finished texts; what exceeds the window after all (tokens of the parts need not add
  // up) is cut in two and counted again.
  absl::Status Verify() {
    while (true) {
      if (drafts_.size() > options_.max_chunks) {
        return WithReason(absl::InvalidArgumentError(StrCat("the document makes more than ",
                                                            options_.max_chunks, " chunks")),
                          kReasonTooLarge);
      }
      std::vector<std::string> inputs;
      std::vector<size_t> which;
      for (size_t i = 0; i < drafts_.size(); ++i) {
        if (drafts_[i].verified) continue;
        const Chunk chunk = MakeChunk(drafts_[i]);
        inputs.push_back(EmbeddingText(chunk, document_.title));
        inputs.push_back(chunk.text);
        which.push_back(i);
      }
      if (which.empty()) return absl::OkStatus();
      const std::vector<std::string_view> views(inputs.begin(), inputs.end());
      CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts, counter_.Count(views));
      std::vector<Draft> out;
      size_t next = 0;
      for (size_t i = 0; i < drafts_.size(); ++i) {
        Draft& draft = drafts_[i];
        if (next == which.size() || which[next] != i) {
          out.push_back(std::move(draft));
          continue;
        }
        const int with_context = counts[2 * next], alone = counts[2 * next + 1];
        ++next;
        if (std::max(with_context, alone) <= options_.max_tokens) {
          draft.verified = true;
          draft.tokens = alone;
          out.push_back(std::move(draft));
          continue;
        }
        if (draft.pieces.size() == 1) draft.pieces = SplitPiece(text_, draft.pieces[0], 2);
        if (draft.pieces.size() < 2) {
          return absl::FailedPreconditionError(
              StrCat("one character takes more than the embedder's window of ", options_.max_tokens,
                     " tokens"));
        }
        const auto middle = draft.pieces.begin() + static_cast<ptrdiff_t>(draft.pieces.size() / 2);
        out.push_back({draft.section, {draft.pieces.begin(), middle}, 0, false});
        out.push_back({draft.section, {middle, draft.pieces.end()}, 0, false});
      }
      drafts_ = std::move(out);
    }
  }

  std::vector<std::string> PathOf(const Section& section, const Piece& piece,
                                  bool after_header) const {
    std::vector<std::string> path = section.heading_path;
    const std::string& header = document_.blocks[piece.block].table_header;
    if (after_header && !header.empty()) path.push_back(CutHeading(header));
    return path;
  }

  Chunk MakeChunk(const Draft& draft) const {
    const Section& section = sections_[draft.section];
    const Piece& first = draft.pieces.front();
    const Span span{first.text.begin, draft.pieces.back().text.end};
    Chunk chunk;
    chunk.text = std::string(text_.substr(span.begin, span.size()));
    chunk.span = document_.map.ToSource(span);
    chunk.source_map = CutMap(document_.map, span);
    chunk.heading_path = PathOf(section, first, first.after_header);
    chunk.parent_span = document_.map.ToSource(section.text);
    chunk.token_count = draft.tokens;
    chunk.language = LanguageOf(chunk.text);
    return chunk;
  }

  const ParsedDocument& document_;
  const std::string_view text_;
  Counter counter_;
  const ChunkOptions& options_;
  std::vector<Section> sections_;
  std::vector<Draft> drafts_;
};

}  // namespace

std::string EmbeddingText(const Chunk& chunk, std::string_view title) {
  const std::string context = ContextLine(chunk.heading_path, title);
  return context.empty() ? chunk.text : StrCat(context, "\n", chunk.text);
}

absl::StatusOr<std::vector<Chunk>> ChunkDocument(const ParsedDocument& document,
                                                 std::string_view document_id,
                                                 std::string_view content_sha256,
                                                 const CountTokensFunction& count_tokens,
                                                 const ChunkOptions& options) {
  return Chunker(document, count_tokens, options).Run(document_id, content_sha256);
}

}  // namespace cairn::retrieval
