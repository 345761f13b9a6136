#include "engine/convert/wordpiece_vocab.h"

#include <map>
#include <string>
#include <vector>

#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::engine {
namespace {

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUnused = 5
};  // llama_token_type

constexpr std::string_view kWordStart = "\u2581";

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

absl::Status AddWordPieceVocabulary(std::string_view vocab_txt, int64_t rows, GgufWriter* writer) {
  const std::vector<std::string_view> lines = SplitLines(vocab_txt);
  if (static_cast<int64_t>(lines.size()) != rows) {
    return absl::InvalidArgumentError(
        StrCat("vocab.txt has ", lines.size(), " pieces, the embedding table ", rows, " rows"));
  }
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::map<std::string_view, uint32_t> special = {
      {"[PAD]", 0}, {"[UNK]", 0}, {"[CLS]", 0}, {"[SEP]", 0}, {"[MASK]", 0}};
  size_t num_special = 0;
  for (const std::string_view piece : lines) {
    if (piece.empty() || !IsValidUtf8(piece)) {
      return absl::InvalidArgumentError(
          StrCat("vocab.txt: line ", tokens.size() + 1, " is empty or not UTF-8"));
    }
    const auto it = special.find(piece);
    if (it != special.end()) {
      it->second = static_cast<uint32_t>(tokens.size());
      ++num_special;
      types.push_back(piece == "[UNK]" ? kUnknown : kControl);
      tokens.emplace_back(piece);
    } else if (piece.substr(0, 7) == "[unused") {
      types.push_back(kUnused);
      tokens.emplace_back(piece);
    } else {
      types.push_back(kNormal);
      tokens.push_back(piece.substr(0, 2) == "##" && piece.size() > 2 ? std::string(piece.substr(2))
                                                                      : StrCat(kWordStart, piece));
    }
  }
  if (num_special != special.size()) {
    return absl::InvalidArgumentError(
        "vocab.txt: [PAD], [UNK], [CLS], [SEP] and [MASK] must appear once each");
  }
  writer->AddString("tokenizer.ggml.model", "bert");
  writer->AddStrings("tokenizer.ggml.tokens", tokens);
  writer->AddInts("tokenizer.ggml.token_type", types);
  writer->AddUint32("tokenizer.ggml.bos_token_id", special["[CLS]"]);
  writer->AddUint32("tokenizer.ggml.cls_token_id", special["[CLS]"]);
  writer->AddUint32("tokenizer.ggml.eos_token_id", special["[SEP]"]);
  writer->AddUint32("tokenizer.ggml.seperator_token_id", special["[SEP]"]);  // llama.cpp's spelling
  writer->AddUint32("tokenizer.ggml.unknown_token_id", special["[UNK]"]);
  writer->AddUint32("tokenizer.ggml.padding_token_id", special["[PAD]"]);
  writer->AddUint32("tokenizer.ggml.mask_token_id", special["[MASK]"]);
  return absl::OkStatus();
}

}  // namespace cairn::engine
