// Encodes texts from standard input with the tokenizer of a model file: what
// tests/scripts/compare_tokenizers.py holds against other implementations.
//
//   encode_texts MODEL.gguf [--parse-special]
//
// In:  for each text its length in bytes, 32 bits little-endian, and its bytes.
// Out: for each text a line of ids, separated by spaces.
#include <array>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>

#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

int Run(const std::string& path, const EncodeOptions& options) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      file.ok() ? Tokenizer::Load(**file) : file.status();
  if (!tokenizer.ok()) {
    std::cerr << path << ": " << tokenizer.status() << "\n";
    return 1;
  }
  std::array<unsigned char, 4> size;
  while (std::cin.read(reinterpret_cast<char*>(size.data()), size.size())) {
    std::string text(size[0] | size[1] << 8 | size[2] << 16 | uint32_t{size[3]} << 24, '\0');
    if (!std::cin.read(text.data(), static_cast<std::streamsize>(text.size()))) {
      std::cerr << "the last text is cut short\n";
      return 1;
    }
    std::string_view separator = "";
    for (TokenId id : (*tokenizer)->Encode(text, options)) {
      std::cout << separator << id;
      separator = " ";
    }
    std::cout << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace cairn::engine

int main(int argc, char** argv) {
  const bool parse_special = argc == 3 && std::string_view(argv[2]) == "--parse-special";
  if (argc != 2 && !parse_special) {
    std::cerr << "usage: encode_texts MODEL.gguf [--parse-special]\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  return cairn::engine::Run(argv[1], {.parse_special = parse_special});
}
