#include "engine/tokenizer/unigram.h"

#include <unicode/unorm2.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_replace.h"
#include "common/check.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::engine {
namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece's kUnkPenalty

const UNormalizer2* Nfc() {
  static const UNormalizer2* const kInstance = [] {
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* nfc = unorm2_getNFCInstance(&error);
    CAIRN_CHECK(U_SUCCESS(error));
    return nfc;
  }();
  return kInstance;
}

// Composes with the character before where Unicode has a composition for the two. Pairwise, not the
// full algorithm: like the longest match of the original table, and linear whatever marks follow.
void AppendComposed(char32_t c, std::u32string* out) {
  if (c >= 0x300) {  // no character below composes with the one before it
    UChar32 composed =
        unorm2_composePair(Nfc(), static_cast<UChar32>(out->back()), static_cast<UChar32>(c));
    if (composed >= 0) {
      out->back() = static_cast<char32_t>(composed);
      return;
    }
  }
  out->push_back(c);
}

bool IsComposition(char32_t c) {
  UChar parts[32];  // two characters
  UErrorCode error = U_ZERO_ERROR;
  return unorm2_getRawDecomposition(Nfc(), static_cast<UChar32>(c), parts, std::size(parts),
                                    &error) >= 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> UnigramTokenizer::Load(const GgufFile& file) {
  CAIRN_ASSIGN_OR_RETURN(Vocabulary vocab, Vocabulary::FromGguf(file));
  if (vocab.scores.empty() || vocab.unk < 0) {
    return absl::InvalidArgumentError(
        "tokenizer: model 't5' needs tokenizer.ggml.scores and tokenizer.ggml.unknown_token_id");
  }
  std::unique_ptr<UnigramTokenizer> tokenizer(new UnigramTokenizer(std::move(vocab)));
  CAIRN_RETURN_IF_ERROR(tokenizer->ReadNormalization(file));
  tokenizer->IndexPieces();
  tokenizer->add_space_prefix_ = tokenizer->vocab().add_space_prefix.value_or(true);
  Frame frame = tokenizer->BosEosFrame(/*default_bos=*/true, /*default_eos=*/true);
  // <s> first </s></s> second </s>
  if (!frame.after.empty()) frame.between = {frame.after[0], frame.after[0]};
  tokenizer->SetFrame(std::move(frame));
  return tokenizer;
}

absl::Status UnigramTokenizer::ReadNormalization(const GgufFile& file) {
  if (file.Has("tokenizer.ggml.precompiled_charsmap")) {
    return absl::UnimplementedError(
        "tokenizer: tokenizer.ggml.precompiled_charsmap is not supported, only "
        "cairn.tokenizer.norm_*");
  }
  constexpr std::string_view kCollapse = "tokenizer.ggml.remove_extra_whitespaces";
  if (file.Has(kCollapse)) {
    CAIRN_ASSIGN_OR_RETURN(bool collapse, file.GetBool(kCollapse));
    if (!collapse) {
      return absl::UnimplementedError(
          StrCat("tokenizer: ", kCollapse, " = false is not supported"));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(std::span<const int64_t> from, file.GetInts("cairn.tokenizer.norm_from"));
  CAIRN_ASSIGN_OR_RETURN(std::span<const std::string_view> to,
                         file.GetStrings("cairn.tokenizer.norm_to"));
  if (from.size() != to.size()) {
    return absl::InvalidArgumentError(StrCat("tokenizer: cairn.tokenizer.norm_from has ",
                                             from.size(), " entries, norm_to ", to.size()));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] > 0x10FFFF || (i > 0 && from[i] <= from[i - 1]) ||
        !IsValidUtf8(to[i]) || to[i].size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(StrCat(
          "tokenizer: entry ", i, " of cairn.tokenizer.norm_* is not ascending, or no text"));
    }
    std::u32string replacement;
    for (size_t pos = 0; pos < to[i].size();) {
      size_t length = 0;
      replacement.push_back(DecodeUtf8(to[i], pos, &length));
      pos += length;
    }
    normalization_.emplace(static_cast<char32_t>(from[i]), std::move(replacement));
  }
  return absl::OkStatus();
}

void UnigramTokenizer::IndexPieces() {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (TokenId id = 0; id < vocab().size(); ++id) {
    if (vocab().types[id] != TokenType::kNormal) continue;
    std::string_view text = vocab().texts[id];
    pieces.emplace_back(text, id);
    pieces_span_words_ |= text.find(kSpaceMark, 1) != std::string_view::npos;
  }
  pieces_ = TokenTrie(std::move(pieces));
  // Over all pieces, control ones too, as the original does.
  unk_score_ = *std::ranges::min_element(vocab().scores) - kUnknownPenalty;
}

std::string UnigramTokenizer::OrdinaryBytes(TokenId id) const {
  return absl::StrReplaceAll(vocab().texts[id], {{ToAbsl(kSpaceMark), " "}});
}

std::string UnigramTokenizer::Normalize(std::string_view text) const {
  std::u32string chars;
  chars.reserve(text.size());
  // Whether the last character may compose with the next: it is all that its original became, and
  // no composition from the start (the original table has a circumflex and an acute behind a
  // letter, but no acute behind a letter with a circumflex).
  bool composes = false;
  for (size_t pos = 0; pos < text.size();) {
    size_t length = 0;
    char32_t c = DecodeUtf8(text, pos, &length);
    pos += length;
    auto it = normalization_.find(c);
    const std::u32string_view replacement =
        it == normalization_.end() ? std::u32string_view(&c, 1) : it->second;
    const bool is_one = replacement.size() == 1;
    if (is_one && composes) {
      AppendComposed(replacement[0], &chars);
    } else {
      chars += replacement;
    }
    composes = is_one && !IsComposition(replacement[0]);
  }
  std::string out;
  bool mark_next = add_space_prefix_;
  bool after_word = false;
  for (char32_t c : chars) {
    if (c == ' ') {
      mark_next |= after_word;  // spaces at the very start count for nothing
      continue;
    }
    if (mark_next) out += kSpaceMark;
    mark_next = false;
    after_word = true;
    AppendUtf8(c, &out);
  }
  return out;
}

void UnigramTokenizer::EncodeText(std::string_view text, bool, std::vector<TokenId>* ids) const {
  const std::string normalized = Normalize(text);
  const std::string_view view = normalized;
  std::vector<TokenId> pieces;
  for (size_t begin = 0; begin < view.size();) {
    size_t end =
        pieces_span_words_ ? view.size() : std::min(view.size(), view.find(kSpaceMark, begin + 1));
    Segment(view.substr(begin, end - begin), &pieces);
    begin = end;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i] == vocab().unk && i > 0 && pieces[i - 1] == vocab().unk) continue;
    ids->push_back(pieces[i]);
  }
}

void UnigramTokenizer::Segment(std::string_view text, std::vector<TokenId>* ids) const {
  struct Best {  // of all segmentations of the first i bytes
    double score = -std::numeric_limits<double>::infinity();
    uint32_t begin = 0;  // of the last piece
    TokenId id = -1;
  };
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  for (size_t pos = 0; pos < text.size();) {
    size_t char_length = 0;
    DecodeUtf8(text, pos, &char_length);
    const double score = best[pos].score;
    auto offer = [&](size_t length, double piece_score, TokenId id) {
      Best& target = best[pos + length];
      if (score + piece_score > target.score) {
        target = {score + piece_score, static_cast<uint32_t>(pos), id};
      }
    };
    bool has_single = false;
    pieces_.ForEachPrefix(text.substr(pos), [&](size_t length, TokenId id) {
      offer(length, vocab().scores[id], id);
      has_single |= length == char_length;
    });
    if (!has_single) offer(char_length, unk_score_, vocab().unk);
    pos += char_length;
  }
  const size_t first = ids->size();
  for (size_t end = text.size(); end > 0; end = best[end].begin) ids->push_back(best[end].id);
  std::reverse(ids->begin() + static_cast<ptrdiff_t>(first), ids->end());
}

}  // namespace cairn::engine
