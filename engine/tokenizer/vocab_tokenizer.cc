#include "engine/tokenizer/vocab_tokenizer.h"

#include <utility>

#include "common/check.h"

namespace cairn::engine {
namespace {

// Positions are 32-bit while a text is encoded, and a space may become three bytes.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

bool IsMarker(std::string_view text) {
  return text.size() > 2 && text.front() == '<' && text.back() == '>';
}

void Append(const std::vector<TokenId>& from, std::vector<TokenId>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

VocabTokenizer::VocabTokenizer(Vocabulary vocab) : vocab_(std::move(vocab)) {
  std::vector<std::pair<std::string_view, int32_t>> in_text, special;
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    const std::string& text = vocab_.texts[id];
    switch (vocab_.types[id]) {
      case TokenType::kUserDefined:
        if (!IsMarker(text)) in_text.emplace_back(text, id);
        special.emplace_back(text, id);
        break;
      case TokenType::kControl:
      case TokenType::kUnknown:
        special.emplace_back(text, id);
        break;
      default:
        break;
    }
  }
  in_text_ = TokenTrie(std::move(in_text));
  special_ = TokenTrie(std::move(special));
}

VocabTokenizer::Frame VocabTokenizer::BosEosFrame(bool default_bos, bool default_eos) const {
  Frame frame;
  if (vocab_.add_bos.value_or(default_bos) && vocab_.bos >= 0) frame.before = {vocab_.bos};
  if (vocab_.add_eos.value_or(default_eos) && vocab_.eos >= 0) frame.after = {vocab_.eos};
  return frame;
}

std::vector<TokenId> VocabTokenizer::Encode(std::string_view text,
                                            const EncodeOptions& options) const {
  CAIRN_CHECK(text.size() <= kMaxTextBytes);
  std::vector<TokenId> ids;
  if (options.add_special) ids = frame_.before;
  const TokenTrie& written_out = options.parse_special ? special_ : in_text_;
  bool starts_text = true;
  size_t begin = 0;  // of the ordinary text not yet encoded
  for (size_t pos = 0; pos < text.size();) {
    auto [length, id] = written_out.LongestPrefix(text.substr(pos));
    if (length == 0) {
      ++pos;
      continue;
    }
    if (pos > begin) EncodeText(text.substr(begin, pos - begin), starts_text, &ids);
    ids.push_back(id);
    starts_text = true;
    pos += length;
    begin = pos;
  }
  if (begin < text.size()) EncodeText(text.substr(begin), starts_text, &ids);
  if (options.add_special) Append(frame_.after, &ids);
  return ids;
}

std::vector<TokenId> VocabTokenizer::EncodePair(std::string_view first, std::string_view second,
                                                int max_tokens, std::vector<int32_t>* type_ids,
                                                bool* truncated) const {
  std::vector<TokenId> ids = frame_.before;
  Append(Encode(first, {}), &ids);
  Append(frame_.between, &ids);
  const size_t second_begin = ids.size();
  std::vector<TokenId> rest = Encode(second, {});
  *truncated = false;
  if (max_tokens > 0) {
    size_t used = second_begin + frame_.after.size();
    size_t room =
        static_cast<size_t>(max_tokens) > used ? static_cast<size_t>(max_tokens) - used : 0;
    if (rest.size() > room) {
      rest.resize(room);
      *truncated = true;
    }
  }
  Append(rest, &ids);
  Append(frame_.after, &ids);
  type_ids->assign(ids.size(), 0);
  if (frame_.second_text_has_type_one) {
    std::fill(type_ids->begin() + static_cast<ptrdiff_t>(second_begin), type_ids->end(), 1);
  }
  return ids;
}

bool VocabTokenizer::IsControl(TokenId id) const {
  CAIRN_DCHECK(id >= 0 && id < vocab_.size());
  return vocab_.types[id] == TokenType::kControl || vocab_.types[id] == TokenType::kUnknown;
}

std::string VocabTokenizer::TokenBytes(TokenId id, bool render_special) const {
  CAIRN_DCHECK(id >= 0 && id < vocab_.size());
  if (IsControl(id)) return render_special ? vocab_.texts[id] : std::string();
  if (vocab_.types[id] == TokenType::kUserDefined) return vocab_.texts[id];
  return OrdinaryBytes(id);
}

std::string VocabTokenizer::Decode(std::span<const TokenId> ids, bool render_special) const {
  std::string text;
  for (TokenId id : ids) text += TokenBytes(id, render_special);
  if (StripsFirstSpace() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace cairn::engine
