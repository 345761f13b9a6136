#include "engine/chat/chat_template.h"

#include <utility>

#include "common/file.h"
#include "common/strings.h"
#include "engine/chat/python_json.h"

namespace cairn::engine {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kToolCall = "<tool_call>";
constexpr std::string_view kToolCallEnd = "</tool_call>";

constexpr std::string_view kQwenSystem =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kSmolLmSystem =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

std::string_view RoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
  }
  return "";
}

// Collects the parts of a conversation; text that touches is one part.
class Writer {
 public:
  Writer& Control(std::string_view token) {
    parts_.push_back({true, std::string(token)});
    return *this;
  }
  Writer& Text(std::string_view text) {
    if (text.empty()) return *this;
    if (parts_.empty() || parts_.back().is_control) parts_.push_back({false, ""});
    parts_.back().text += text;
    return *this;
  }
  // The model's own words: the tool call markers in them are tokens again.
  Writer& AssistantText(std::string_view text) {
    while (true) {
      const size_t open = text.find(kToolCall), close = text.find(kToolCallEnd);
      const size_t at = std::min(open, close);
      if (at == std::string_view::npos) return Text(text);
      const std::string_view marker = open < close ? kToolCall : kToolCallEnd;
      Text(text.substr(0, at)).Control(marker);
      text.remove_prefix(at + marker.size());
    }
  }
  // One whole ChatML turn.
  Writer& Turn(std::string_view role, std::string_view content) {
    return Control(kStart).Text(role).Text("\n").Text(content).Control(kEnd).Text("\n");
  }
  std::vector<ChatPart> Take() { return std::move(parts_); }

 private:
  std::vector<ChatPart> parts_;
};

// The system turn of Qwen2.5 with the tools in it.
void WriteQwenTools(std::string_view system, const std::vector<std::string>& tools,
                    bool doubled_braces, Writer& out) {
  out.Control(kStart)
      .Text("system\n")
      .Text(system)
      .Text(
          "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou "
          "are "
          "provided with function signatures within <tools></tools> XML tags:\n<tools>");
  for (const std::string& tool : tools) out.Text("\n").Text(tool);
  out.Text(
         "\n</tools>\n\nFor each function call, return a json object with function name and "
         "arguments within ")
      .Control(kToolCall)
      .Control(kToolCallEnd)
      .Text(" XML tags:\n")
      .Control(kToolCall)
      .Text(doubled_braces ? "\n{{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n"
                           : "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n")
      .Control(kToolCallEnd)
      .Control(kEnd)
      .Text("\n");
}

absl::Status WriteQwenAssistant(const ChatMessage& message, Writer& out) {
  out.Control(kStart).Text("assistant");
  if (message.tool_calls.empty() || !message.content.empty()) {
    out.Text("\n").AssistantText(message.content);
  }
  for (const ChatToolCall& call : message.tool_calls) {
    absl::StatusOr<std::string> arguments = PythonJsonObject(call.arguments_json);
    if (!arguments.ok()) {
      return Annotate(arguments.status(), StrCat("arguments of the call to '", call.name, "'"));
    }
    out.Text("\n")
        .Control(kToolCall)
        .Text(StrCat("\n{\"name\": \"", call.name, "\", \"arguments\": ", *arguments, "}\n"))
        .Control(kToolCallEnd);
  }
  out.Control(kEnd).Text("\n");
  return absl::OkStatus();
}

absl::Status WriteQwen(std::span<const ChatMessage> messages, const std::vector<std::string>& tools,
                       bool doubled_braces, Writer& out) {
  const bool has_system = messages[0].role == ChatRole::kSystem;
  const std::string_view system = has_system ? std::string_view(messages[0].content) : kQwenSystem;
  if (tools.empty()) {
    out.Turn("system", system);
  } else {
    WriteQwenTools(system, tools, doubled_braces, out);
  }
  for (size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == ChatRole::kAssistant) {
      CAIRN_RETURN_IF_ERROR(WriteQwenAssistant(message, out));
    } else if (message.role == ChatRole::kTool) {  // results in a row share one user turn
      if (i == 0 || messages[i - 1].role != ChatRole::kTool) out.Control(kStart).Text("user");
      out.Text("\n<tool_response>\n").Text(message.content).Text("\n</tool_response>");
      if (i + 1 == messages.size() || messages[i + 1].role != ChatRole::kTool) {
        out.Control(kEnd).Text("\n");
      }
    } else {
      out.Turn(RoleName(message.role), message.content);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenId> ControlId(const Tokenizer& tokenizer, const std::string& name) {
  std::vector<TokenId> ids = tokenizer.Encode(name, {.parse_special = true});
  if (ids.size() == 1) return ids[0];
  return absl::InvalidArgumentError(
      StrCat("chat template: the vocabulary has no control token '", name, "'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const GgufFile& file) {
  struct Known {
    std::string_view sha256;
    Kind kind;
    bool doubled_braces = false;
  };
  constexpr Known kKnown[] = {
      // Qwen2.5 and Qwen2.5-Coder Instruct; the second ends without a line break.
      {"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f", Kind::kQwen25},
      {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a", Kind::kQwen25},
      // Qwen2.5-Coder 1.5B Instruct as GGUF.
      {"d5495a1e5db0611132a97e46a65dbb64a642a499421228b9c8b93229097fa9a4", Kind::kQwen25, true},
      {"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788", Kind::kSmolLm2},
      // ChatML as Hugging Face had it by default, its line breaks written out or escaped.
      {"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3", Kind::kPlainChatMl},
      {"fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e", Kind::kPlainChatMl},
  };
  std::unique_ptr<ChatTemplate> out(new ChatTemplate());
  absl::StatusOr<std::string_view> name = file.GetString("general.name");
  const std::string model = StrCat("model '", name.ok() ? *name : "(unnamed)", "'");
  if (!file.Has(kTemplateKey)) {
    out->status_ = absl::UnimplementedError(StrCat(model, " has no chat template"));
    return out;
  }
  CAIRN_ASSIGN_OR_RETURN(std::string_view text, file.GetString(kTemplateKey));
  const std::string sha256 = Sha256Hex(text);
  for (const Known& known : kKnown) {
    if (known.sha256 != sha256) continue;
    out->kind_ = known.kind;
    out->supports_tools_ = known.kind == Kind::kQwen25;
    out->doubled_braces_ = known.doubled_braces;
    return out;
  }
  out->status_ =
      absl::UnimplementedError(StrCat("the chat template of ", model, " is not known (sha256 ",
                                      sha256, ", ", text.size(), " bytes)"));
  return out;
}

absl::StatusOr<std::vector<ChatPart>> ChatTemplate::RenderParts(
    std::span<const ChatMessage> messages, bool add_generation_prompt,
    std::string_view tools_json) const {
  CAIRN_RETURN_IF_ERROR(status_);
  if (messages.empty()) return absl::InvalidArgumentError("a chat needs at least one message");
  std::vector<std::string> tools;
  if (!tools_json.empty()) {
    absl::StatusOr<std::vector<std::string>> elements = PythonJsonElements(tools_json);
    if (!elements.ok()) return Annotate(elements.status(), "tools");
    tools = *std::move(elements);
  }
  bool has_calls = false;
  for (const ChatMessage& message : messages) {
    has_calls |= !message.tool_calls.empty();
    if (!message.tool_calls.empty() && message.role != ChatRole::kAssistant) {
      return absl::InvalidArgumentError(
          StrCat("a message of role '", RoleName(message.role), "' cannot hold tool calls"));
    }
  }
  if ((has_calls || !tools.empty()) && !supports_tools_) {
    return absl::UnimplementedError("the model's chat template has no place for tools");
  }

  Writer out;
  if (kind_ == Kind::kQwen25) {
    CAIRN_RETURN_IF_ERROR(WriteQwen(messages, tools, doubled_braces_, out));
  } else {
    if (kind_ == Kind::kSmolLm2 && messages[0].role != ChatRole::kSystem) {
      out.Turn("system", kSmolLmSystem);
    }
    for (const ChatMessage& message : messages) out.Turn(RoleName(message.role), message.content);
  }
  if (add_generation_prompt) out.Control(kStart).Text("assistant\n");
  return out.Take();
}

absl::StatusOr<std::vector<TokenId>> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                          const Tokenizer& tokenizer,
                                                          bool add_generation_prompt,
                                                          std::string_view tools_json) const {
  CAIRN_ASSIGN_OR_RETURN(std::vector<ChatPart> parts,
                         RenderParts(messages, add_generation_prompt, tools_json));
  std::vector<TokenId> ids;
  for (const ChatPart& part : parts) {
    if (part.is_control) {
      CAIRN_ASSIGN_OR_RETURN(TokenId id, ControlId(tokenizer, part.text));
      ids.push_back(id);
    } else {
      std::vector<TokenId> text_ids = tokenizer.Encode(part.text);
      ids.insert(ids.end(), text_ids.begin(), text_ids.end());
    }
  }
  return ids;
}

absl::StatusOr<std::string> ChatTemplate::RenderText(std::span<const ChatMessage> messages,
                                                     bool add_generation_prompt,
                                                     std::string_view tools_json) const {
  CAIRN_ASSIGN_OR_RETURN(std::vector<ChatPart> parts,
                         RenderParts(messages, add_generation_prompt, tools_json));
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  return text;
}

}  // namespace cairn::engine
