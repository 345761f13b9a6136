#include "agent/run/action.h"

#include <algorithm>

#include "agent/schema/json_text.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kFence = "```";
constexpr size_t kMaxEcho = 80;
constexpr size_t kMaxCallBytes = 64 << 10;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A fence's body, without its language word.
std::string_view Body(std::string_view fenced) {
  const size_t line = fenced.find('\n');
  return line == std::string_view::npos ? std::string_view() : Trim(fenced.substr(line + 1));
}

std::string Echo(std::string_view text) {
  if (text.size() <= kMaxEcho) return SanitizeUtf8(text);
  return SanitizeUtf8(text.substr(0, Utf8Floor(text, kMaxEcho))) + "...";
}

ProposedCall ReadCall(std::string_view body, bool closed) {
  ProposedCall call;
  const auto problem = [&](std::string_view what) {
    call.problem = StrCat("the tool call could not be read: ", what, ". You wrote: ", Echo(body));
    return call;
  };
  body = Trim(body);
  if (body.substr(0, 3) == kFence) {
    body = Body(body);
    if (body.size() >= 3 && body.substr(body.size() - 3) == kFence)
      body = Trim(body.substr(0, body.size() - 3));
  }
  if (body.size() > kMaxCallBytes) return problem(StrCat("it has ", body.size(), " bytes"));
  const absl::StatusOr<Json> json = ParseJson(body);
  if (!json.ok()) {
    call.truncated = !closed && JsonObjectExtent(body) == 0;
    return problem(ToStd(json.status().message()));
  }
  if (!json->is_object()) return problem("it must be an object with \"name\" and \"arguments\"");
  const auto name = json->find("name");
  if (name == json->end() || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    return problem("\"name\" must be a non-empty string");
  }
  call.name = name->get<std::string>();
  auto arguments = json->find("arguments");
  if (arguments == json->end()) arguments = json->find("parameters");
  Json value = arguments == json->end() ? Json("") : *arguments;
  if (value.is_string()) {  // JSON in a string is the OpenAI form; "" means no arguments
    const std::string text = value.get<std::string>();
    absl::StatusOr<Json> inner =
        Trim(text).empty() ? absl::StatusOr<Json>(Json::object()) : ParseJson(text);
    if (!inner.ok()) return problem(StrCat("\"arguments\": ", ToStd(inner.status().message())));
    value = *std::move(inner);
  }
  if (!value.is_object())
    return problem(StrCat("\"arguments\" must be an object, not ", value.type_name()));
  call.arguments_json = DumpJson(value);
  return call;
}

// Whether text that is not tagged was meant as a call.
bool LooksLikeCall(std::string_view body) {
  return !body.empty() && body[0] == '{' && body.find("\"name\"") != std::string_view::npos &&
         (body.find("\"arguments\"") != std::string_view::npos ||
          body.find("\"parameters\"") != std::string_view::npos);
}

void Append(std::string_view text, std::string* out) {
  text = Trim(text);
  if (text.empty()) return;
  if (!out->empty()) *out += "\n";
  *out += text;
}

void ReadTagged(std::string_view output, Action* action) {
  while (!output.empty()) {
    const size_t open = output.find(kOpen);
    Append(output.substr(0, open), &action->text);
    if (open == std::string_view::npos) return;
    output.remove_prefix(open + kOpen.size());
    const size_t close = output.find(kClose);
    const size_t next = output.find(kOpen);
    const size_t end = std::min({close, next, output.size()});
    action->calls.push_back(ReadCall(output.substr(0, end), end != output.size()));
    output.remove_prefix(end == close ? end + kClose.size() : end);
  }
}

// Objects one behind the other; what stands between them is text.
void ReadBare(std::string_view text, Action* action) {
  while (LooksLikeCall(text = Trim(text))) {
    const size_t extent = JsonObjectExtent(text);
    const size_t end = extent == 0 ? text.size() : extent;
    action->calls.push_back(ReadCall(text.substr(0, end), extent != 0));
    text.remove_prefix(end);
  }
  Append(text, &action->text);
}

void ReadFenced(std::string_view output, Action* action) {
  while (!output.empty()) {
    const size_t open = output.find(kFence);
    if (open == std::string_view::npos) {
      ReadBare(output, action);
      return;
    }
    const size_t close = output.find(kFence, open + kFence.size());
    const size_t end = close == std::string_view::npos ? output.size() : close;
    const std::string_view body = Body(output.substr(open, end - open));
    ReadBare(output.substr(0, open), action);
    const size_t next = close == std::string_view::npos ? end : close + kFence.size();
    if (LooksLikeCall(body)) {
      ReadBare(body, action);
    } else {
      Append(output.substr(open, next - open), &action->text);
    }
    output.remove_prefix(next);
  }
}

}  // namespace

Action ParseAction(std::string_view output) {
  Action action;
  if (output.find(kOpen) != std::string_view::npos) {
    ReadTagged(output, &action);
  } else {
    ReadFenced(output, &action);
  }
  return action;
}

}  // namespace cairn::agent
