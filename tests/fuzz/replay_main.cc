// Runs every file of the given folders through LLVMFuzzerTestOneInput, for builds without
// libFuzzer. A folder without files is an error: a corpus that was not found would pass unseen.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    if (paths.empty()) {
      std::fprintf(stderr, "%s: no files\n", argv[i]);
      return 1;
    }
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) {
      std::printf("%s\n", path.filename().c_str());  // the last line names the file of a crash
      std::fflush(stdout);
      std::ifstream file(path, std::ios::binary);
      // Of exact size, so that the address sanitizer sees a byte read past the end.
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
  }
  return argc > 1 ? 0 : 1;
}
