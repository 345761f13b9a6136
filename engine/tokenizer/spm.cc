#include "engine/tokenizer/spm.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_replace.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "engine/tokenizer/pair_merge.h"

namespace cairn::engine {
namespace {

std::optional<uint8_t> ParseByteToken(std::string_view text) {  // <0x0A>
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int high = digit(text[3]), low = digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SpmTokenizer::Load(const GgufFile& file) {
  CAIRN_ASSIGN_OR_RETURN(Vocabulary vocab, Vocabulary::FromGguf(file));
  if (vocab.scores.empty()) {
    return absl::InvalidArgumentError("tokenizer: model 'llama' needs tokenizer.ggml.scores");
  }
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(vocab)));
  tokenizer->add_space_prefix_ = tokenizer->vocab().add_space_prefix.value_or(true);
  CAIRN_RETURN_IF_ERROR(tokenizer->IndexTokens());
  tokenizer->SetFrame(tokenizer->BosEosFrame(/*default_bos=*/true, /*default_eos=*/false));
  return tokenizer;
}

absl::Status SpmTokenizer::IndexTokens() {
  bytes_.resize(vocab().texts.size());
  byte_ids_.fill(vocab().unk);
  for (TokenId id = 0; id < vocab().size(); ++id) {
    const std::string& text = vocab().texts[id];
    if (vocab().types[id] == TokenType::kByte) {
      std::optional<uint8_t> byte = ParseByteToken(text);
      if (!byte.has_value()) {
        return absl::InvalidArgumentError(StrCat("tokenizer: '", text, "' is no byte token"));
      }
      byte_ids_[*byte] = id;
      bytes_[id] = std::string(1, static_cast<char>(*byte));
    } else if (vocab().types[id] == TokenType::kNormal) {
      auto [it, is_new] = ids_.try_emplace(ToAbsl(text), id);
      if (!is_new) {
        return absl::InvalidArgumentError(
            StrCat("tokenizer: tokens ", it->second, " and ", id, " are the same text"));
      }
      bytes_[id] = absl::StrReplaceAll(text, {{ToAbsl(kSpaceMark), " "}});
      max_token_bytes_ = std::max(max_token_bytes_, text.size());
    }
  }
  return absl::OkStatus();
}

TokenId SpmTokenizer::Find(std::string_view text) const {
  if (text.size() > max_token_bytes_) return -1;
  auto it = ids_.find(ToAbsl(text));
  return it == ids_.end() ? -1 : it->second;
}

void SpmTokenizer::EncodeText(std::string_view text, bool starts_text,
                              std::vector<TokenId>* ids) const {
  std::string escaped;
  if (add_space_prefix_ && starts_text) escaped = kSpaceMark;
  escaped.reserve(escaped.size() + text.size());
  for (char c : text) {
    if (c == ' ') {
      escaped += kSpaceMark;
    } else {
      escaped += c;
    }
  }
  const std::string_view view = escaped;
  std::vector<Symbol> symbols;
  for (size_t pos = 0; pos < view.size();) {
    size_t length = 0;
    DecodeUtf8(view, pos, &length);
    Symbol symbol;
    symbol.id = Find(view.substr(pos, length));
    symbol.begin = static_cast<uint32_t>(pos);
    symbol.length = static_cast<uint32_t>(length);
    symbols.push_back(symbol);
    pos += length;
  }
  MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<PairMerge> {
    TokenId id = Find(view.substr(left.begin, left.length + right.length));
    if (id < 0) return std::nullopt;
    return PairMerge{-static_cast<double>(vocab().scores[id]), id};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.length == 0) continue;
    if (symbol.id >= 0) {
      ids->push_back(symbol.id);
      continue;
    }
    for (char c : view.substr(symbol.begin, symbol.length)) {
      TokenId id = byte_ids_[static_cast<uint8_t>(c)];
      if (id >= 0) ids->push_back(id);
    }
  }
}

}  // namespace cairn::engine
