// OpenAiApi: the HTTP routes of the gateway, over the public gRPC API.
//
//   POST /v1/chat/completions   plain or server-sent events; with "collection" the answer comes
//   from documents POST /v1/embeddings GET  /v1/models, /v1/models/{name} GET  /healthz   the
//   process lives      GET /readyz   it can answer      GET /metrics   Prometheus text
//
// Extension: a chat request may hold "collection": NAME. The answer is then made from that
// collection's documents, with numbered marks "[1]" in the text; message.citations (in a stream:
// delta.citations of the last content chunk) lists each with document_id, version, span {begin,
// end} in bytes of the file, quote, heading_path and the sentence it supports; "cairn":
// {"abstained": bool, "unsupported_sentences": [...]} says what could not be supported.
//
// Errors have OpenAI's form {"error": {message, type, param, code}}. A field that we know and
// cannot honour is refused, never ignored.
#ifndef CAIRN_SERVICES_GATEWAY_OPENAI_API_H_
#define CAIRN_SERVICES_GATEWAY_OPENAI_API_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/gateway/http_server.h"

namespace grpc {
class Channel;
}

namespace cairn::services {

struct OpenAiApiOptions {
  std::string api_key;                     // empty = no key asked for (loopback only)
  std::vector<std::string> cors_origins;   // allowed origins, or "*"
  std::function<bool()> ready;             // every role can answer
  std::function<std::string()> readiness;  // what cannot, and why, for people
  std::function<std::string()> metrics;    // Prometheus text
};

HttpHandler MakeOpenAiApi(OpenAiApiOptions options, std::shared_ptr<grpc::Channel> inference,
                          std::shared_ptr<grpc::Channel> agent);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_GATEWAY_OPENAI_API_H_
