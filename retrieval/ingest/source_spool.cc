#include "retrieval/ingest/source_spool.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/check.h"
#include "common/strings.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {
namespace {

absl::Status DiskError(std::string_view what, const std::string& path, int error) {
  const std::string message = StrCat(what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace

struct SourceSpool::Hash {
  Hash() : context(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context); }
  EVP_MD_CTX* context;
};

absl::StatusOr<std::unique_ptr<SourceSpool>> SourceSpool::Create(const std::string& dir,
                                                                 uint64_t max_bytes) {
  std::string path = dir + "/put-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return DiskError("create", path, errno);
  return std::unique_ptr<SourceSpool>(new SourceSpool(std::move(path), fd, max_bytes));
}

SourceSpool::SourceSpool(std::string path, int fd, uint64_t max_bytes)
    : path_(std::move(path)), fd_(fd), max_bytes_(max_bytes), hash_(std::make_unique<Hash>()) {}

SourceSpool::~SourceSpool() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status SourceSpool::Append(std::string_view bytes) {
  CAIRN_CHECK(!finished());
  if (bytes.size() > max_bytes_ - size_) {
    return WithReason(
        absl::ResourceExhaustedError(StrCat("the document has more than ", max_bytes_, " bytes")),
        kReasonTooLarge);
  }
  EVP_DigestUpdate(hash_->context, bytes.data(), bytes.size());
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskError("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status SourceSpool::Finish() {
  CAIRN_CHECK(!finished());
  if (fsync(fd_) != 0) return DiskError("sync", path_, errno);
  close(std::exchange(fd_, -1));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(hash_->context, digest, &size);
  sha256_ = absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
  return absl::OkStatus();
}

}  // namespace cairn::retrieval
