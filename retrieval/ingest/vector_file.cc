#include "retrieval/ingest/vector_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "common/file.h"
#include "common/strings.h"

namespace cairn::retrieval {
namespace {

constexpr std::string_view kMagic = "CAIRNVF1";
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;

struct Record {
  uint64_t bytes;
  uint64_t checksum;  // XXH3-64 of the bytes
};

std::string Header(std::string_view key, int dimension) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  std::string out(kMagic);
  const uint64_t fields[] = {static_cast<uint64_t>(dimension), hash.low64, hash.high64};
  out.append(reinterpret_cast<const char*>(fields), sizeof(fields));
  return out;
}

// Bytes of `file` that are good; their vectors are appended to `*vectors`.
size_t ReadRecords(std::string_view file, size_t pos, size_t row_bytes,
                   std::vector<float>* vectors) {
  Record record;
  while (file.size() - pos >= sizeof(record)) {
    std::memcpy(&record, file.data() + pos, sizeof(record));
    const std::string_view rest = file.substr(pos + sizeof(record));
    if (record.bytes == 0 || record.bytes > rest.size() || record.bytes % row_bytes != 0 ||
        XXH3_64bits(rest.data(), record.bytes) != record.checksum) {
      break;
    }
    const size_t old = vectors->size();
    vectors->resize(old + record.bytes / sizeof(float));
    std::memcpy(vectors->data() + old, rest.data(), record.bytes);
    pos += sizeof(record) + record.bytes;
  }
  return pos;
}

absl::Status DiskError(std::string_view what, const std::string& path, int error) {
  const std::string message = StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<VectorFile>> VectorFile::Open(const std::string& path,
                                                             std::string_view key, int dimension,
                                                             std::vector<float>* vectors) {
  vectors->clear();
  const std::string header = Header(key, dimension);
  size_t good = 0;
  if (const absl::StatusOr<std::string> old = ReadFile(path, kMaxFileBytes);
      old.ok() && old->starts_with(header)) {
    good =
        ReadRecords(*old, header.size(), static_cast<size_t>(dimension) * sizeof(float), vectors);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return DiskError("open", path, errno);
  std::unique_ptr<VectorFile> out(new VectorFile(path, fd));
  if (ftruncate(fd, static_cast<off_t>(good)) != 0) return DiskError("truncate", path, errno);
  if (good == 0) CAIRN_RETURN_IF_ERROR(out->Write(header));
  return out;
}

VectorFile::~VectorFile() { close(fd_); }

absl::Status VectorFile::Append(std::span<const float> vectors) {
  const Record record{vectors.size_bytes(), XXH3_64bits(vectors.data(), vectors.size_bytes())};
  std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  bytes.append(reinterpret_cast<const char*>(vectors.data()), vectors.size_bytes());
  CAIRN_RETURN_IF_ERROR(Write(bytes));
  return fdatasync(fd_) == 0 ? absl::OkStatus() : DiskError("sync", path_, errno);
}

absl::Status VectorFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskError("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace cairn::retrieval
