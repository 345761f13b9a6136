// SourceSpool takes the bytes of one document as they stream in, writes them to disk, and hashes
// them.
//
// Ownership: the spool owns its file until it is handed to Ingestor::Put; destroyed before that, it
// removes the file. Threads: single-thread. Errors: RESOURCE_EXHAUSTED (DOCUMENT_TOO_LARGE) past
// the limit; what the disk says.
#ifndef CAIRN_RETRIEVAL_INGEST_SOURCE_SPOOL_H_
#define CAIRN_RETRIEVAL_INGEST_SOURCE_SPOOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cairn::retrieval {

class SourceSpool {
 public:
  // A new empty file in `dir`, which exists. At most `max_bytes` may be appended.
  static absl::StatusOr<std::unique_ptr<SourceSpool>> Create(const std::string& dir,
                                                             uint64_t max_bytes);
  ~SourceSpool();
  SourceSpool(const SourceSpool&) = delete;
  SourceSpool& operator=(const SourceSpool&) = delete;

  absl::Status Append(std::string_view bytes);
  // Syncs the file; after it only the accessors and Release may be called.
  absl::Status Finish();

  uint64_t size() const { return size_; }
  bool finished() const { return !sha256_.empty(); }
  const std::string& sha256() const { return sha256_; }  // lower-case hex, after Finish
  const std::string& path() const { return path_; }
  // The file has been moved away: do not remove it.
  void Release() { path_.clear(); }

 private:
  struct Hash;
  SourceSpool(std::string path, int fd, uint64_t max_bytes);

  std::string path_;
  int fd_;
  uint64_t max_bytes_;
  uint64_t size_ = 0;
  std::unique_ptr<Hash> hash_;
  std::string sha256_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_SOURCE_SPOOL_H_
