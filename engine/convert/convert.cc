#include "engine/convert/convert.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/file.h"
#include "common/strings.h"
#include "engine/convert/bert_sources.h"
#include "engine/convert/e5s1.h"
#include "engine/convert/wordpiece_vocab.h"

namespace cairn::engine {
namespace {

absl::Status ConvertE5s1(std::span<const uint8_t> bytes, const BertTraits& traits,
                         GgufWriter* writer) {
  CAIRN_ASSIGN_OR_RETURN(E5s1File file, ParseE5s1(bytes));
  if (file.num_heads != traits.num_heads || file.layer_norm_epsilon != traits.layer_norm_epsilon) {
    return absl::InvalidArgumentError(StrCat("E5S1: ", file.num_heads, " heads and epsilon ",
                                             file.layer_norm_epsilon, ", the manifest says ",
                                             traits.num_heads, " and ", traits.layer_norm_epsilon));
  }
  CAIRN_RETURN_IF_ERROR(AddBert(traits, std::move(file.tensors), writer));
  AddE5s1Vocabulary(file, writer);
  return absl::OkStatus();
}

absl::Status ConvertWithVocabulary(std::vector<BertTensor> tensors, const std::string& vocab_path,
                                   const BertTraits& traits, GgufWriter* writer) {
  const auto words = std::find_if(tensors.begin(), tensors.end(), [](const BertTensor& t) {
    return t.name == "token_embd.weight";
  });
  const int64_t rows = words == tensors.end() ? 0 : words->rows;
  CAIRN_RETURN_IF_ERROR(AddBert(traits, std::move(tensors), writer));
  CAIRN_ASSIGN_OR_RETURN(const std::string vocab, ReadFile(vocab_path, /*max_bytes=*/64 << 20));
  return AddWordPieceVocabulary(vocab, rows, writer);
}

}  // namespace

absl::Status ConvertEncoder(EncoderFormat format, const std::string& source_dir,
                            const BertTraits& traits, const std::string& gguf_path) {
  GgufWriter writer;
  const std::string vocab_path = StrCat(source_dir, "/vocab.txt");
  switch (format) {
    case EncoderFormat::kE5s1: {
      CAIRN_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(StrCat(source_dir, "/model.bin")));
      CAIRN_RETURN_IF_ERROR(ConvertE5s1(file->bytes(), traits, &writer));
      break;
    }
    case EncoderFormat::kSafetensors: {
      CAIRN_ASSIGN_OR_RETURN(const auto file,
                             MappedFile::Open(StrCat(source_dir, "/model.safetensors")));
      CAIRN_ASSIGN_OR_RETURN(const auto parsed, ParseSafetensors(file->bytes()));
      CAIRN_ASSIGN_OR_RETURN(auto tensors, BertFromSafetensors(parsed));
      CAIRN_RETURN_IF_ERROR(ConvertWithVocabulary(std::move(tensors), vocab_path, traits, &writer));
      break;
    }
    case EncoderFormat::kOnnx: {
      CAIRN_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(StrCat(source_dir, "/model.onnx")));
      CAIRN_ASSIGN_OR_RETURN(const OnnxGraph graph, ParseOnnx(file->bytes()));
      CAIRN_ASSIGN_OR_RETURN(auto tensors, BertFromOnnx(graph));
      CAIRN_RETURN_IF_ERROR(ConvertWithVocabulary(std::move(tensors), vocab_path, traits, &writer));
      break;
    }
  }
  return writer.WriteFile(gguf_path);
}

}  // namespace cairn::engine
