#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/strings.h"

namespace cairn {
namespace {

absl::Status ErrnoStatus(std::string_view what, const std::string& path, int error) {
  std::string message = StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::StatusOr<size_t> RegularFileSize(int fd, const std::string& path) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus("stat", path, errno);
  if (!S_ISREG(st.st_mode)) {
    return absl::InvalidArgumentError(StrCat(path, " is not a regular file"));
  }
  return static_cast<size_t>(st.st_size);
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus("open", path, errno);
  CAIRN_ASSIGN_OR_RETURN(size_t size, RegularFileSize(fd.get(), path));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat(path, " has ", size, " bytes, the limit is ", max_bytes));
  }
  std::string out(size, '\0');
  size_t done = 0;
  while (done < size) {
    ssize_t n = read(fd.get(), out.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", path, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  out.resize(done);
  return out;
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view bytes) {
  std::string temp = StrCat(path, ".tmp.", getpid());
  {
    Fd fd(open(temp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) return ErrnoStatus("create", temp, errno);
    absl::Status status = WriteAll(fd.get(), bytes, temp);
    if (status.ok() && fsync(fd.get()) != 0) status = ErrnoStatus("sync", temp, errno);
    if (!status.ok()) {
      unlink(temp.c_str());
      return status;
    }
  }
  if (rename(temp.c_str(), path.c_str()) != 0) {
    absl::Status status = ErrnoStatus("rename to", path, errno);
    unlink(temp.c_str());
    return status;
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  Fd dir(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() < 0 || fsync(dir.get()) != 0) return ErrnoStatus("sync folder of", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus("open", path, errno);
  CAIRN_ASSIGN_OR_RETURN(size_t size, RegularFileSize(fd.get(), path));
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus("map", path, errno);
  return std::unique_ptr<MappedFile>(new MappedFile(static_cast<const uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return absl::InternalError(StrCat("create folder ", dir, ": ", error.message()));
  std::string path = dir + "/LOCK";
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return ErrnoStatus("open", path, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    char owner[32] = {};
    ssize_t n = pread(fd.get(), owner, sizeof(owner) - 1, 0);
    return WithReason(absl::FailedPreconditionError(StrCat("data directory ", dir,
                                                           " is in use by another process (pid ",
                                                           n > 0 ? owner : "unknown", ")")),
                      "DATA_DIRECTORY_LOCKED");
  }
  std::string pid = StrCat(getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus("write", path, errno);
  }
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(fd.release()));
}

DirectoryLock::~DirectoryLock() { close(fd_); }

std::string Sha256Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  return Sha256Hex({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
}

std::string CairnHome() {
  if (const char* home = std::getenv("CAIRN_HOME"); home != nullptr && *home != '\0') return home;
  const char* user = std::getenv("HOME");
  return StrCat(user != nullptr && *user != '\0' ? user : ".", "/.cairn");
}

}  // namespace cairn
