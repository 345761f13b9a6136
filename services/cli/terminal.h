// What a terminal can show. Colours and progress appear only on a terminal, and colours not with
// NO_COLOR.
#ifndef CAIRN_SERVICES_CLI_TERMINAL_H_
#define CAIRN_SERVICES_CLI_TERMINAL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace cairn::services::cli {

bool StdoutIsTerminal();
bool StderrIsTerminal();

// The text in bold or dim where standard output shows it, otherwise as it is.
std::string Bold(std::string_view text);
std::string Dim(std::string_view text);

// "1.1 GB", "71.6 MB", "512 B".
std::string FormatBytes(int64_t bytes);

// One line on standard error that is drawn over; nothing when that is no terminal.
class ProgressLine {
 public:
  ~ProgressLine() { Clear(); }
  // `done` of `total` with a bar, and a note. Drawn at most ten times a second.
  void Show(int64_t done, int64_t total, std::string_view note);
  // Removes the line, so that other output can be written.
  void Clear();

 private:
  absl::Time last_ = absl::InfinitePast();
  bool drawn_ = false;
};

}  // namespace cairn::services::cli

#endif  // CAIRN_SERVICES_CLI_TERMINAL_H_
