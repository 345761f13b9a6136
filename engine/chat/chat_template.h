// ChatTemplate: a conversation as the token ids that the model was trained on.
//
// Model files carry their template as a Jinja program. We run no Jinja: a known program is
// recognised by its SHA-256 and rendered by code that tests pin to the original's output. An
// unknown one is never guessed at: rendering then gives UNIMPLEMENTED naming the model.
//
// Control tokens come from the template alone. Message contents are encoded as plain text, whatever
// is written in them, except that <tool_call> and </tool_call> in an assistant's message, the
// model's own words, are the tokens that the model had produced. Text of the template and of a
// message that touch are tokenised together, as the reference does. No BOS or EOS is added beyond
// the template's.
//
// Threads: thread-safe, immutable.
// Errors:  INVALID_ARGUMENT for no messages, malformed JSON, or a vocabulary without one of the
//          template's tokens; UNIMPLEMENTED for an unknown template, or tools it has no place for.
#ifndef CAIRN_ENGINE_CHAT_CHAT_TEMPLATE_H_
#define CAIRN_ENGINE_CHAT_CHAT_TEMPLATE_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

enum class ChatRole { kSystem, kUser, kAssistant, kTool };

struct ChatToolCall {
  std::string name;
  std::string arguments_json;  // a JSON object
};

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;
  std::vector<ChatToolCall> tool_calls;  // of an assistant
};

// A piece of a rendered conversation: one control token by its name, or text.
struct ChatPart {
  bool is_control = false;
  std::string text;
};

class ChatTemplate {
 public:
  // Succeeds for an unknown or missing template too, so that the model can still be used with plain
  // prompts; see status(). INVALID_ARGUMENT when the metadata key holds no string.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const GgufFile& file);

  // OK, or the UNIMPLEMENTED that rendering gives.
  const absl::Status& status() const { return status_; }
  bool supports_tools() const { return supports_tools_; }

  // `tools_json`: a JSON array of tool descriptions in the OpenAI form, or "" for none.
  absl::StatusOr<std::vector<TokenId>> Render(std::span<const ChatMessage> messages,
                                              const Tokenizer& tokenizer,
                                              bool add_generation_prompt,
                                              std::string_view tools_json = {}) const;
  absl::StatusOr<std::string> RenderText(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt,
                                         std::string_view tools_json = {}) const;

 private:
  enum class Kind { kUnknown, kPlainChatMl, kSmolLm2, kQwen25 };

  ChatTemplate() = default;
  absl::StatusOr<std::vector<ChatPart>> RenderParts(std::span<const ChatMessage> messages,
                                                    bool add_generation_prompt,
                                                    std::string_view tools_json) const;

  absl::Status status_;
  Kind kind_ = Kind::kUnknown;
  bool supports_tools_ = false;
  bool doubled_braces_ = false;  // a slip in some of the Qwen2.5-Coder files' templates
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CHAT_CHAT_TEMPLATE_H_
