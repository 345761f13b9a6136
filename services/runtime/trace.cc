#include "services/runtime/trace.h"

#include <algorithm>
#include <random>

#include "common/strings.h"

namespace cairn::services {
namespace {

constexpr char kHex[] = "0123456789abcdef";

bool IsLowerHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string RandomHex(int num_bytes) {
  thread_local std::random_device device;
  std::string out;
  for (int i = 0; i < num_bytes; ++i) {
    const unsigned byte = device() & 0xff;
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

bool IsUsableRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string TraceIdOf(std::string_view header) {
  // version(2) - trace id(32) - parent id(16) - flags(2); later versions may append.
  if (header.size() < 55 || (header.size() > 55 && header[55] != '-')) return "";
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return "";
  const std::string_view version = header.substr(0, 2), trace = header.substr(3, 32),
                         parent = header.substr(36, 16), flags = header.substr(53, 2);
  if (!IsLowerHex(version) || !IsLowerHex(trace) || !IsLowerHex(parent) || !IsLowerHex(flags))
    return "";
  if (version == "ff" || (version == "00" && header.size() != 55)) return "";
  if (trace.find_first_not_of('0') == std::string_view::npos) return "";
  if (parent.find_first_not_of('0') == std::string_view::npos) return "";
  return std::string(trace);
}

std::string TraceParentFor(std::string_view trace_id) {
  return StrCat("00-", trace_id, "-", RandomHex(8), "-01");
}

}  // namespace cairn::services
