#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "common/strings.h"

namespace cairn::log {
namespace {

std::atomic<bool> g_json{false};

spdlog::logger& Logger() {
  static auto* logger = [] {
    auto made = std::make_shared<spdlog::logger>("cairn",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->flush_on(spdlog::level::debug);
    return new std::shared_ptr<spdlog::logger>(made);
  }();
  return **logger;
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      StrAppend(&out, "\\u00", absl::Hex(c, absl::kZeroPad2));
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
}

bool NeedsQuotes(std::string_view text) {
  if (text.empty()) return true;
  for (unsigned char c : text) {
    if (c <= 0x20 || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

void Write(spdlog::level::level_enum level, std::string_view message, Fields fields) {
  if (!Logger().should_log(level)) return;
  std::string line;
  if (g_json.load(std::memory_order_relaxed)) {
    line = "{\"message\":";
    AppendQuoted(line, message);
    for (const Field& field : fields) {
      line += ',';
      AppendQuoted(line, field.key);
      line += ':';
      AppendQuoted(line, field.value);
    }
    line += '}';
  } else {
    line.assign(message);
    for (const Field& field : fields) {
      StrAppend(&line, " ", field.key, "=");
      if (NeedsQuotes(field.value)) {
        AppendQuoted(line, field.value);
      } else {
        line += field.value;
      }
    }
  }
  Logger().log(level, "{}", line);
}

}  // namespace

void Init(Level level, bool json) {
  g_json = json;
  if (json) {
    Logger().set_pattern("{\"time\":\"%Y-%m-%dT%H:%M:%S.%e%z\",\"level\":\"%l\",\"event\":%v}");
  }
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err,
                                                          spdlog::level::off};
  Logger().set_level(kLevels[static_cast<int>(level)]);
}

bool ParseLevel(std::string_view name, Level* level) {
  static constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "off"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) {
      *level = static_cast<Level>(i);
      return true;
    }
  }
  return false;
}

void Debug(std::string_view message, Fields fields) {
  Write(spdlog::level::debug, message, fields);
}
void Info(std::string_view message, Fields fields) { Write(spdlog::level::info, message, fields); }
void Warning(std::string_view message, Fields fields) {
  Write(spdlog::level::warn, message, fields);
}
void Error(std::string_view message, Fields fields) { Write(spdlog::level::err, message, fields); }

}  // namespace cairn::log
