// Structured logging: one line per event, "message key=value ...". Never document text, prompts or
// secrets above debug level.
//
//   log::Info("model loaded", {{"model", name}, {"mib", bytes >> 20}});
//
// Threads: thread-safe. Output goes to standard error; Init is called once, first, by main.
#ifndef CAIRN_COMMON_LOG_H_
#define CAIRN_COMMON_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/strings.h"

namespace cairn::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

struct Field {
  template <typename T>
  Field(std::string_view key, const T& value) : key(key), value(StrCat(value)) {}
  std::string key;
  std::string value;
};
using Fields = std::initializer_list<Field>;

// `json` writes each line as one JSON object.
void Init(Level level, bool json);
// "debug", "info", "warning", "error" or "off"; false when the name is unknown.
bool ParseLevel(std::string_view name, Level* level);

void Debug(std::string_view message, Fields fields = {});
void Info(std::string_view message, Fields fields = {});
void Warning(std::string_view message, Fields fields = {});
void Error(std::string_view message, Fields fields = {});

}  // namespace cairn::log

#endif  // CAIRN_COMMON_LOG_H_
