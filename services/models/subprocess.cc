#include "services/models/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/time/clock.h"
#include "common/strings.h"

extern char** environ;

namespace cairn::services {
namespace {

constexpr int kTickMillis = 250;
constexpr absl::Duration kGrace = absl::Seconds(2);  // between SIGTERM and SIGKILL

class UniqueFd {
 public:
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The pointers of an argument or environment list for exec.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const auto& pair) {
      return text.substr(0, pair.first.size() + 1) == pair.first + "=";
    });
    if (!replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(StrCat(name, "=", value));
  return result;
}

absl::StatusOr<pid_t> Spawn(const Command& command, int output) {
  std::vector<std::string> arguments = command.argv;
  std::vector<std::string> environment = Environment(command.environment);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Its own group, so that its children end with it; and the signal setup of a fresh process, since
  // ours (a server's) would be inherited.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) sigaddset(&signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &signals);

  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT)
    return absl::NotFoundError(StrCat("program '", command.argv[0], "' is not on PATH"));
  if (error != 0)
    return absl::InternalError(
        StrCat("cannot start '", command.argv[0], "': ", std::strerror(error)));
  return pid;
}

// Appends what can be read now; false at the end of the stream. Keeps the last `limit` bytes.
bool Drain(int fd, size_t limit, std::string* output) {
  char buffer[16384];
  while (true) {
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (size == 0) return false;
    output->append(buffer, static_cast<size_t>(size));
    if (output->size() > limit) output->erase(0, output->size() - limit);
  }
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

// Ends the process group and reaps the child.
void End(pid_t pid) {
  kill(-pid, SIGTERM);
  const absl::Time give_up = absl::Now() + kGrace;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (absl::Now() > give_up) {
      kill(-pid, SIGKILL);
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      return;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  kill(-pid, SIGKILL);  // grandchildren that outlived the child
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const RequestContext& caller, const Command& command) {
  if (command.argv.empty()) return absl::InvalidArgumentError("no program to run");
  const RequestContext context = caller.WithTimeout(command.timeout);
  CAIRN_RETURN_IF_ERROR(context.Check());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::InternalError(StrCat("cannot make a pipe: ", std::strerror(errno)));
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  CAIRN_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, write_end.get()));
  write_end.Reset();

  CommandResult result;
  bool open = true;
  absl::Time next_tick = absl::Now();
  while (true) {
    if (absl::Status status = context.Check(); !status.ok()) {
      End(pid);
      return Annotate(status, command.argv[0]);
    }
    if (command.on_tick && absl::Now() >= next_tick) {
      command.on_tick();
      next_tick = absl::Now() + absl::Milliseconds(kTickMillis);
    }
    // The child's end is what ends the loop: a daemon that it left behind may hold the pipe for
    // ever.
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (open) open = Drain(read_end.get(), command.max_output, &result.output);
    if (ended == pid) {
      result.exit_code = ExitCode(status);
      return result;
    }
    pollfd descriptor = {read_end.get(), POLLIN, 0};
    // Without a pipe to wait for, the child is about to end.
    poll(&descriptor, open ? 1 : 0, open ? 50 : 5);
  }
}

}  // namespace cairn::services
