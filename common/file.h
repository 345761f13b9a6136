// Files: whole-file reads, atomic durable writes, read-only memory maps, data directory locks.
//
// Errors: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (larger than the limit) or INTERNAL with
// the path and the system's reason in the message.
#ifndef CAIRN_COMMON_FILE_H_
#define CAIRN_COMMON_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cairn {

// Reads a regular file of at most `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes = uint64_t{1} << 32);

// Writes beside the target, syncs file and folder, renames: a reader sees the old bytes or the new
// ones.
absl::Status WriteFileAtomic(const std::string& path, std::string_view bytes);

// A whole file mapped read-only. Thread-safe; the bytes live as long as the object.
class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const uint8_t* data_;
  size_t size_;
};

// Exclusive ownership of a directory by this process, until destroyed (flock on `dir`/LOCK).
// FAILED_PRECONDITION names the process that holds it.
class DirectoryLock {
 public:
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& dir);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

// Lower-case hex SHA-256.
std::string Sha256Hex(std::string_view bytes);
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

// ${CAIRN_HOME}, or ~/.cairn.
std::string CairnHome();

}  // namespace cairn

#endif  // CAIRN_COMMON_FILE_H_
