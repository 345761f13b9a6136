#include "services/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::services::cli {
namespace {

bool ColoursWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return StdoutIsTerminal() && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

int TerminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

}  // namespace

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

std::string Bold(std::string_view text) {
  return ColoursWanted() ? StrCat("\033[1m", text, "\033[0m") : std::string(text);
}
std::string Dim(std::string_view text) {
  return ColoursWanted() ? StrCat("\033[2m", text, "\033[0m") : std::string(text);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1000 && unit < 3) {
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

void ProgressLine::Show(int64_t done, int64_t total, std::string_view note) {
  const absl::Time now = absl::Now();
  if (!StderrIsTerminal() || (done < total && now - last_ < absl::Milliseconds(100))) return;
  last_ = now;
  constexpr int kBar = 24;
  const int filled = total > 0 ? static_cast<int>(kBar * std::min(done, total) / total) : 0;
  std::string line = StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                            std::string(static_cast<size_t>(kBar - filled), '.'), "] ", note);
  line.resize(Utf8Floor(line, static_cast<size_t>(TerminalWidth() - 1)));
  std::cerr << "\r\033[K" << line << std::flush;
  drawn_ = true;
}

void ProgressLine::Clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace cairn::services::cli
