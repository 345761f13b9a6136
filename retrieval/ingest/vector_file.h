// Vectors of a job that were computed before a crash, so that they need not be computed again.
//
// The file is a cache: whatever is wrong with it, the vectors are computed anew.
// Threads: single-thread.
#ifndef CAIRN_RETRIEVAL_INGEST_VECTOR_FILE_H_
#define CAIRN_RETRIEVAL_INGEST_VECTOR_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::retrieval {

class VectorFile {
 public:
  // Opens or creates. What was written under the same `key` (it names the vector space and every
  // text) is returned in `*vectors` [n, dimension], up to the first record that is not whole; all
  // else is dropped.
  static absl::StatusOr<std::unique_ptr<VectorFile>> Open(const std::string& path,
                                                          std::string_view key, int dimension,
                                                          std::vector<float>* vectors);
  ~VectorFile();
  VectorFile(const VectorFile&) = delete;
  VectorFile& operator=(const VectorFile&) = delete;

  // Appends whole vectors and syncs.
  absl::Status Append(std::span<const float> vectors);

 private:
  VectorFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Write(std::string_view bytes);

  std::string path_;
  int fd_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_VECTOR_FILE_H_
