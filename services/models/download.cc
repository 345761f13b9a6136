#include "services/models/download.h"

#include <algorithm>
#include <filesystem>

#include "common/file.h"
#include "common/strings.h"

namespace cairn::services {

void ProgressMeter::Report(int64_t in_flight) {
  if (!callback_) return;
  const int64_t done = done_ + in_flight;
  callback_({total_ > 0 ? std::min(done, total_) : done, total_, step_});
}

absl::Status CheckFile(const std::string& path, int64_t bytes, std::string_view sha256) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(StrCat(path, ": ", error.message()));
  if (bytes > 0 && size != static_cast<uintmax_t>(bytes)) {
    return absl::DataLossError(StrCat(path, " has ", size, " bytes, expected ", bytes));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string sum, Sha256HexOfFile(path));
  if (sum != sha256) {
    return absl::DataLossError(StrCat(path, " has SHA-256 ", sum, ", expected ", sha256));
  }
  return absl::OkStatus();
}

std::string_view Tail(std::string_view output) {
  while (!output.empty() && (output.back() == '\n' || output.back() == ' '))
    output.remove_suffix(1);
  constexpr size_t kMax = 600;
  if (output.size() > kMax) {
    output.remove_prefix(output.size() - kMax);
    const size_t line = output.find('\n');
    if (line != std::string_view::npos) output.remove_prefix(line + 1);
  }
  return output;
}

}  // namespace cairn::services
