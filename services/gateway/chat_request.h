// The body of POST /v1/chat/completions, read strictly.
#ifndef CAIRN_SERVICES_GATEWAY_CHAT_REQUEST_H_
#define CAIRN_SERVICES_GATEWAY_CHAT_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace cairn::services {

struct ChatRequest {
  struct Message {
    std::string role;  // "system", "user" or "assistant"; "developer" is read as "system"
    std::string content;
  };
  std::string model;
  std::vector<Message> messages;
  float temperature = 1;
  std::optional<float> top_p;
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<int, float>> logit_bias;  // token id, bias
  std::optional<uint64_t> seed;
  int max_tokens = 0;  // 0 = the server's default
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;
  std::optional<int> top_logprobs;
  std::string collection;  // extension: answer from this collection
};

// INVALID_ARGUMENT naming the field.
absl::StatusOr<ChatRequest> ParseChatRequest(std::string_view body);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_GATEWAY_CHAT_REQUEST_H_
