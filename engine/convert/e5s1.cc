#include "engine/convert/e5s1.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/checked_math.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "engine/convert/byte_reader.h"

namespace cairn::engine {
namespace {

using kernels::DType;

constexpr std::string_view kFormat = "E5S1";
constexpr int kBlock = 32;
constexpr int kMaxReplacement = 64;  // code points; the longest of Unicode's NFKC are 18

struct Shape {
  int hidden, layers, feed_forward, vocabulary, positions, types;
};

absl::Status Bad(std::string_view message) {
  return absl::InvalidArgumentError(StrCat(kFormat, ": ", message));
}

absl::StatusOr<int> ReadBounded(ByteReader& reader, std::string_view what, int low, int high) {
  CAIRN_ASSIGN_OR_RETURN(const int32_t value, reader.Read<int32_t>(what));
  if (value < low || value > high)
    return Bad(StrCat(what, " is ", value, ", expected ", low, "..", high));
  return value;
}

absl::StatusOr<Shape> ReadHeader(ByteReader& reader, E5s1File* file) {
  CAIRN_ASSIGN_OR_RETURN(const auto magic, reader.Take(4, "the magic"));
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), 4) != kFormat)
    return Bad("wrong magic");
  CAIRN_ASSIGN_OR_RETURN(const auto version, reader.Read<uint32_t>("version"));
  if (version != 1)
    return absl::UnimplementedError(StrCat(kFormat, ": version ", version, ", expected 1"));
  Shape shape;
  CAIRN_ASSIGN_OR_RETURN(shape.hidden, ReadBounded(reader, "hidden size", kBlock, 1 << 14));
  CAIRN_ASSIGN_OR_RETURN(shape.layers, ReadBounded(reader, "layers", 1, 1 << 10));
  CAIRN_ASSIGN_OR_RETURN(file->num_heads, ReadBounded(reader, "heads", 1, shape.hidden));
  CAIRN_ASSIGN_OR_RETURN(shape.feed_forward,
                         ReadBounded(reader, "feed forward size", kBlock, 1 << 16));
  CAIRN_ASSIGN_OR_RETURN(shape.vocabulary, ReadBounded(reader, "vocabulary rows", 1, 1 << 24));
  CAIRN_ASSIGN_OR_RETURN(shape.positions, ReadBounded(reader, "positions", 1, 1 << 20));
  CAIRN_ASSIGN_OR_RETURN(shape.types, ReadBounded(reader, "token types", 1, 1 << 10));
  CAIRN_ASSIGN_OR_RETURN(file->layer_norm_epsilon, reader.Read<float>("layer norm epsilon"));
  CAIRN_ASSIGN_OR_RETURN(const int block, ReadBounded(reader, "block length", 1, 1 << 16));
  if (block != kBlock || shape.hidden % kBlock != 0 || shape.feed_forward % kBlock != 0) {
    return Bad(StrCat("block length ", block, " with hidden size ", shape.hidden,
                      " and feed forward size ", shape.feed_forward, ": expected blocks of ",
                      kBlock, " that divide both"));
  }
  file->num_positions = shape.positions;
  return shape;
}

absl::Status ReadPieces(ByteReader& reader, int vocabulary, E5s1File* file) {
  CAIRN_ASSIGN_OR_RETURN(const int count, ReadBounded(reader, "number of pieces", 1, vocabulary));
  CAIRN_ASSIGN_OR_RETURN(file->bos, ReadBounded(reader, "bos", 0, count - 1));
  CAIRN_ASSIGN_OR_RETURN(file->eos, ReadBounded(reader, "eos", 0, count - 1));
  CAIRN_ASSIGN_OR_RETURN(file->pad, ReadBounded(reader, "pad", 0, count - 1));
  CAIRN_ASSIGN_OR_RETURN(file->unk, ReadBounded(reader, "unk", 0, count - 1));
  CAIRN_ASSIGN_OR_RETURN(const auto blob_size, reader.Read<uint64_t>("piece blob length"));
  CAIRN_ASSIGN_OR_RETURN(const auto offsets,
                         reader.ReadArray<uint32_t>(uint64_t{1} + count, "piece offsets"));
  CAIRN_ASSIGN_OR_RETURN(file->scores, reader.ReadArray<float>(count, "piece scores"));
  CAIRN_ASSIGN_OR_RETURN(const auto blob, reader.Take(blob_size, "piece blob"));
  file->pieces.reserve(count);
  for (int i = 0; i < count; ++i) {
    if (offsets[i] > offsets[i + 1] || offsets[i + 1] > blob_size) {
      return Bad(StrCat("piece ", i, " spans ", offsets[i], "..", offsets[i + 1], " of ", blob_size,
                        " bytes"));
    }
    std::string_view piece(reinterpret_cast<const char*>(blob.data()) + offsets[i],
                           offsets[i + 1] - offsets[i]);
    if (piece.empty() || !IsValidUtf8(piece))
      return Bad(StrCat("piece ", i, " is empty or not UTF-8"));
    if (!std::isfinite(file->scores[i]))
      return Bad(StrCat("the score of piece ", i, " is not finite"));
    file->pieces.emplace_back(piece);
  }
  return absl::OkStatus();
}

bool IsScalarValue(uint32_t code_point) {
  return code_point <= 0x10FFFF && !(code_point >= 0xD800 && code_point <= 0xDFFF);
}

absl::Status ReadNorm(ByteReader& reader, E5s1File* file) {
  CAIRN_ASSIGN_OR_RETURN(const int count,
                         ReadBounded(reader, "number of norm records", 0, 0x110000));
  CAIRN_ASSIGN_OR_RETURN(const auto size, reader.Read<uint32_t>("norm table length"));
  const uint64_t begin = reader.position();
  for (int i = 0; i < count; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto from, reader.Read<uint32_t>("norm code point"));
    if (!IsScalarValue(from) || (i > 0 && static_cast<int32_t>(from) <= file->norm_from.back())) {
      return Bad(
          StrCat("norm record ", i, " has code point ", from, ", out of order or out of range"));
    }
    CAIRN_ASSIGN_OR_RETURN(const auto n, reader.Read<uint8_t>("norm replacement length"));
    if (n > kMaxReplacement) return Bad(StrCat("norm record ", i, " has ", n, " replacements"));
    CAIRN_ASSIGN_OR_RETURN(const auto to, reader.ReadArray<uint32_t>(n, "norm replacement"));
    std::string replacement;
    for (const uint32_t code_point : to) {
      if (!IsScalarValue(code_point))
        return Bad(StrCat("norm record ", i, " gives code point ", code_point));
      AppendUtf8(code_point, &replacement);
    }
    file->norm_from.push_back(static_cast<int32_t>(from));
    file->norm_to.push_back(std::move(replacement));
  }
  if (reader.position() - begin != size) {
    return Bad(
        StrCat("norm table takes ", reader.position() - begin, " bytes, its length says ", size));
  }
  return absl::OkStatus();
}

// The GGUF name and the shape of a tensor; nullopt when the name is not one of the format's.
std::optional<BertTensor> Describe(std::string_view name, const Shape& shape) {
  const auto tensor = [](std::string gguf_name, int64_t rows, int64_t cols) {
    return BertTensor{std::move(gguf_name), DType::kF32, rows, cols, {}};
  };
  const int64_t hidden = shape.hidden;
  if (name == "emb.word") return tensor("token_embd.weight", shape.vocabulary, hidden);
  if (name == "emb.pos") return tensor("position_embd.weight", shape.positions, hidden);
  if (name == "emb.type") return tensor("token_types.weight", shape.types, hidden);
  if (name == "emb.ln.w") return tensor("token_embd_norm.weight", 0, hidden);
  if (name == "emb.ln.b") return tensor("token_embd_norm.bias", 0, hidden);

  const size_t dot = name.find('.');
  int layer = 0;
  if (dot == std::string_view::npos || name.substr(0, 1) != "l" ||
      !absl::SimpleAtoi(ToAbsl(name.substr(1, dot - 1)), &layer) || layer < 0 ||
      layer >= shape.layers) {
    return std::nullopt;
  }
  const std::string_view rest = name.substr(dot + 1);
  struct Part {
    std::string_view name, gguf;
    int64_t rows, cols;
  };
  const int64_t wide = shape.feed_forward;
  const Part parts[] = {
      {"q", "attn_q", hidden, hidden},        {"k", "attn_k", hidden, hidden},
      {"v", "attn_v", hidden, hidden},        {"ao", "attn_output", hidden, hidden},
      {"aln", "attn_output_norm", 0, hidden}, {"fi", "ffn_up", wide, hidden},
      {"fo", "ffn_down", hidden, wide},       {"oln", "layer_output_norm", 0, hidden}};
  for (const Part& part : parts) {
    const std::string stem = StrCat("blk.", layer, ".", part.gguf);
    if (rest == StrCat(part.name, ".w")) return tensor(stem + ".weight", part.rows, part.cols);
    if (rest == StrCat(part.name, ".b"))
      return tensor(stem + ".bias", 0, part.rows > 0 ? part.rows : part.cols);
  }
  return std::nullopt;
}

absl::Status ReadTensors(std::span<const uint8_t> bytes, const Shape& shape, ByteReader& reader,
                         E5s1File* file) {
  CAIRN_ASSIGN_OR_RETURN(const int count, ReadBounded(reader, "number of tensors", 1, 1 << 16));
  std::set<std::string> seen;
  uint64_t previous_end = reader.position();
  for (int i = 0; i < count; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto length, reader.Read<uint16_t>("tensor name length"));
    CAIRN_ASSIGN_OR_RETURN(const auto name_bytes, reader.Take(length, "tensor name"));
    const std::string name(name_bytes.begin(), name_bytes.end());
    CAIRN_ASSIGN_OR_RETURN(const auto dtype, reader.Read<uint8_t>("tensor type"));
    CAIRN_ASSIGN_OR_RETURN(const auto elements, reader.Read<uint32_t>("tensor elements"));
    CAIRN_ASSIGN_OR_RETURN(const auto offset, reader.Read<uint64_t>("tensor offset"));
    CAIRN_ASSIGN_OR_RETURN(const auto size, reader.Read<uint64_t>("tensor bytes"));
    std::optional<BertTensor> tensor = Describe(name, shape);
    if (!tensor || !seen.insert(name).second) {
      return Bad(StrCat("tensor ", i, " of ", count, " has an unknown or repeated name"));
    }
    if (dtype > 1) return Bad(StrCat("tensor '", name, "' has type ", dtype, ", expected 0 or 1"));
    tensor->type = dtype == 0 ? DType::kF32 : DType::kQ4_0;
    const kernels::DTypeInfo& info = kernels::Info(tensor->type);
    const int64_t expected = std::max<int64_t>(tensor->rows, 1) * tensor->cols;  // both < 2^24
    if (elements != expected || tensor->cols % info.block_elements != 0 ||
        size != static_cast<uint64_t>(expected / info.block_elements * info.block_bytes)) {
      return Bad(StrCat("tensor '", name, "' has ", elements, " elements in ", size,
                        " bytes, expected ", expected, " elements of ", info.name));
    }
    uint64_t end;
    if (!CheckedAdd(offset, size, &end) || end > bytes.size()) {
      return absl::OutOfRangeError(StrCat(kFormat, ": tensor '", name, "' at offset ", offset,
                                          " with ", size, " bytes reaches past the end of ",
                                          bytes.size(), " bytes"));
    }
    if (offset < previous_end) {
      return Bad(StrCat("tensor '", name, "' at offset ", offset, " overlaps what ends at ",
                        previous_end));
    }
    previous_end = end;
    const auto data = bytes.subspan(offset, size);
    tensor->data.assign(data.begin(), data.end());
    file->tensors.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<E5s1File> ParseE5s1(std::span<const uint8_t> bytes) {
  ByteReader reader(kFormat, bytes);
  E5s1File file;
  CAIRN_ASSIGN_OR_RETURN(const Shape shape, ReadHeader(reader, &file));
  CAIRN_RETURN_IF_ERROR(ReadPieces(reader, shape.vocabulary, &file));
  CAIRN_RETURN_IF_ERROR(ReadNorm(reader, &file));
  CAIRN_RETURN_IF_ERROR(ReadTensors(bytes, shape, reader, &file));
  return file;
}

void AddE5s1Vocabulary(const E5s1File& file, GgufWriter* writer) {
  enum TokenType : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3
  };  // llama.cpp's llama_token_type
  std::vector<int32_t> types(file.pieces.size(), kNormal);
  for (const int id : {file.bos, file.eos, file.pad}) types[id] = kControl;
  types[file.unk] = kUnknown;
  const auto mask = std::find(file.pieces.begin(), file.pieces.end(), "<mask>");
  if (mask != file.pieces.end()) types[mask - file.pieces.begin()] = kControl;

  writer->AddString("tokenizer.ggml.model", "t5");  // llama.cpp's name for a unigram model
  writer->AddStrings("tokenizer.ggml.tokens", file.pieces);
  writer->AddFloats("tokenizer.ggml.scores", file.scores);
  writer->AddInts("tokenizer.ggml.token_type", types);
  writer->AddUint32("tokenizer.ggml.bos_token_id", file.bos);
  writer->AddUint32("tokenizer.ggml.eos_token_id", file.eos);
  writer->AddUint32("tokenizer.ggml.unknown_token_id", file.unk);
  writer->AddUint32("tokenizer.ggml.padding_token_id", file.pad);
  if (mask != file.pieces.end()) {
    writer->AddUint32("tokenizer.ggml.mask_token_id",
                      static_cast<uint32_t>(mask - file.pieces.begin()));
  }
  writer->AddBool("tokenizer.ggml.add_bos_token", true);
  writer->AddBool("tokenizer.ggml.add_eos_token", true);
  writer->AddBool("tokenizer.ggml.add_space_prefix", true);
  writer->AddBool("tokenizer.ggml.remove_extra_whitespaces", true);
  writer->AddInts("cairn.tokenizer.norm_from", file.norm_from);
  writer->AddStrings("cairn.tokenizer.norm_to", file.norm_to);
}

}  // namespace cairn::engine
