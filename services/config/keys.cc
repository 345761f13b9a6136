#include "services/config/keys.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

using Values = std::vector<std::string>;

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

template <typename Field>
ConfigKey Text(std::string name, std::string doc, Field field,
               std::function<std::string(const std::string&)> check = nullptr) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .print =
              [field](const ServerConfig& c) { return Quote(field(const_cast<ServerConfig&>(c))); },
          .set =
              [field, check](const Values& values, ServerConfig* c) {
                std::string problem = check ? check(values[0]) : "";
                if (problem.empty()) field(*c) = values[0];
                return problem;
              }};
}

template <typename Field>
ConfigKey List(std::string name, std::string doc, Field field,
               std::function<std::string(const std::string&)> check = nullptr) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .is_list = true,
          .print =
              [field](const ServerConfig& c) {
                std::string out;
                for (const std::string& item : field(const_cast<ServerConfig&>(c))) {
                  StrAppend(&out, out.empty() ? "" : ", ", Quote(item));
                }
                return StrCat("[", out, "]");
              },
          .set = [field, check](const Values& values, ServerConfig* c) -> std::string {
            for (const std::string& value : values) {
              if (std::string problem = check ? check(value) : ""; !problem.empty()) return problem;
            }
            field(*c) = values;
            return "";
          }};
}

template <typename Field>
ConfigKey Int(std::string name, std::string doc, Field field, int64_t low, int64_t high) {
  return {
      .name = std::move(name),
      .doc = StrCat(doc, " (", low, " to ", high, ")"),
      .print =
          [field](const ServerConfig& c) { return StrCat(field(const_cast<ServerConfig&>(c))); },
      .set = [field, low, high](const Values& values, ServerConfig* c) -> std::string {
        int64_t value = 0;
        if (!absl::SimpleAtoi(values[0], &value)) {
          return StrCat("is no whole number: ", Quote(values[0]));
        }
        if (value < low || value > high) {
          return StrCat("must be ", low, " to ", high, ", got ", value);
        }
        field(*c) = value;
        return "";
      }};
}

// A share between 0 and 1.
template <typename Field>
ConfigKey Share(std::string name, std::string doc, Field field) {
  return {
      .name = std::move(name),
      .doc = StrCat(doc, " (0 to 1)"),
      .print =
          [field](const ServerConfig& c) { return StrCat(field(const_cast<ServerConfig&>(c))); },
      .set = [field](const Values& values, ServerConfig* c) -> std::string {
        double value = 0;
        if (!absl::SimpleAtod(values[0], &value) || !std::isfinite(value)) {
          return StrCat("is no number: ", Quote(values[0]));
        }
        if (value < 0 || value > 1) return StrCat("must be 0 to 1, got ", values[0]);
        field(*c) = value;
        return "";
      }};
}

template <typename Field>
ConfigKey Bool(std::string name, std::string doc, Field field) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .print =
              [field](const ServerConfig& c) {
                return std::string(field(const_cast<ServerConfig&>(c)) ? "true" : "false");
              },
          .set = [field](const Values& values, ServerConfig* c) -> std::string {
            if (values[0] != "true" && values[0] != "false") {
              return StrCat("must be true or false, got ", Quote(values[0]));
            }
            field(*c) = values[0] == "true";
            return "";
          }};
}

std::function<std::string(const std::string&)> OneOf(Values choices) {
  return [choices](const std::string& value) -> std::string {
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return "";
    std::string all;
    for (const std::string& choice : choices) StrAppend(&all, all.empty() ? "" : ", ", choice);
    return StrCat("must be one of ", all, "; got ", Quote(value));
  };
}

std::string IsAddress(const std::string& value) {
  const size_t colon = value.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(value.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return StrCat("must be HOST:PORT, got ", Quote(value));
  }
  return "";
}

std::string IsAddressOrEmpty(const std::string& value) {
  return value.empty() ? "" : IsAddress(value);
}

// A field of the configuration, as a function to a reference to it.
#define FIELD(member) \
  [](ServerConfig & c) -> auto& { return c.member; }

std::vector<ConfigKey> MakeKeys() {
  std::vector<ConfigKey> keys = {
      Text("data_dir", "Where everything is kept; one server at a time. Empty: $CAIRN_HOME/data.",
           FIELD(data_dir)),
      Text("listen", "Address of the gRPC API. Port 0 picks a free one.", FIELD(listen), IsAddress),
      List("roles", "What this process does: inference, ingest, retrieval, agent, gateway.",
           FIELD(roles), OneOf({"inference", "ingest", "retrieval", "agent", "gateway"})),

      Text("addresses.inference", "Where the role is when it is not in this process.",
           FIELD(addresses.inference), IsAddressOrEmpty),
      Text("addresses.ingest", "", FIELD(addresses.ingest), IsAddressOrEmpty),
      Text("addresses.retrieval", "", FIELD(addresses.retrieval), IsAddressOrEmpty),
      Text("addresses.agent", "", FIELD(addresses.agent), IsAddressOrEmpty),

      Text("http.listen", "Address of the HTTP API (role gateway).", FIELD(http.listen), IsAddress),
      Text("http.api_key",
           "Asked of HTTP clients as \"Authorization: Bearer KEY\"; required off loopback.",
           FIELD(http.api_key)),
      List("http.cors_origins", "Origins of browser pages that may call, or \"*\".",
           FIELD(http.cors_origins)),
      Int("http.max_body_bytes", "Largest request body", FIELD(http.max_body_bytes), 1024, 1 << 30),
      Int("http.max_connections", "Open connections; more get 503", FIELD(http.max_connections), 1,
          65536),

      Text("models.generator",
           "Name from `cairn models list`, or a path to a .gguf file; empty: none.",
           FIELD(models.generator)),
      Text("models.embedder", "Empty: collections without vectors, searched by words alone.",
           FIELD(models.embedder)),
      Text("models.reranker", "Empty: no reranking.", FIELD(models.reranker)),
      Int("models.context_tokens", "Tokens a generation may hold, prompt and reply together",
          FIELD(models.context_tokens), 256, 1 << 20),
      Int("models.kv_tokens",
          "Tokens in the key-value cache, shared by all generations; 0: twice the context",
          FIELD(models.kv_tokens), 0, 1 << 24),
      Int("models.max_running", "Generations computed together", FIELD(models.max_running), 1, 256),
      Int("models.step_tokens",
          "Tokens computed in one step: larger reads prompts faster, and lets newcomers wait "
          "longer",
          FIELD(models.step_tokens), 16, 8192),
      Int("models.max_stall_ms",
          "Milliseconds for which other requests' prompts may hold up a stream between two tokens",
          FIELD(models.max_stall_ms), 1, 3'600'000),
      Text("models.queue_policy",
           "Who is next: first_come, priority (of the requests, with ageing) or shortest_prompt.",
           FIELD(models.queue_policy), OneOf({"first_come", "priority", "shortest_prompt"})),
      Int("models.threads", "Threads for the models; 0: one for each core", FIELD(models.threads),
          0, 1024),

      Int("limits.max_message_bytes", "Largest gRPC message in either direction",
          FIELD(limits.max_message_bytes), 2 << 20, 1 << 30),
      Int("limits.max_document_bytes", "Largest document", FIELD(limits.max_document_bytes), 1,
          256 << 20),
      Int("limits.threads_per_role", "Calls of a role that run together",
          FIELD(limits.threads_per_role), 1, 1024),
      Int("limits.queue_per_role", "Calls that wait for those; more get RESOURCE_EXHAUSTED",
          FIELD(limits.queue_per_role), 1, 65536),
      Int("limits.max_uploads", "Uploads open together", FIELD(limits.max_uploads), 1, 1024),
      Int("limits.max_watches", "Job watches open together", FIELD(limits.max_watches), 1, 1024),
      Int("limits.stall_seconds",
          "A stream that its reader does not read is cut off after this long",
          FIELD(limits.stall_seconds), 1, 86400),
      Int("limits.drain_seconds", "On SIGTERM, how long running calls may take to end",
          FIELD(limits.drain_seconds), 0, 3600),

      Int("ingest.workers", "Documents in work at once", FIELD(ingest.workers), 1, 64),
      Int("ingest.chunk_tokens", "Tokens a chunk should hold; the embedder's window limits it",
          FIELD(ingest.chunk_tokens), 32, 8192),
      Int("ingest.max_queued_jobs", "Documents that wait; more get RESOURCE_EXHAUSTED",
          FIELD(ingest.max_queued_jobs), 1, 10'000'000),

      Share("retrieval.vector_weight", "Share of the vectors when words and vectors are fused",
            FIELD(retrieval.vector_weight)),
      Int("retrieval.candidates", "Taken from each list before fusion", FIELD(retrieval.candidates),
          1, 10000),
      Int("retrieval.rerank_top", "Fused candidates that are reranked", FIELD(retrieval.rerank_top),
          1, 1000),
      Share("retrieval.rerank_weight", "Share of the reranker in the final score",
            FIELD(retrieval.rerank_weight)),
      Bool("retrieval.sync_commits",
           "Sync each commit to the device: without it a power cut may lose the last documents.",
           FIELD(retrieval.sync_commits)),

      Int("ask.top_k", "Passages retrieved for a question", FIELD(ask.top_k), 1, 64),
      Int("ask.max_tokens", "Longest answer", FIELD(ask.max_tokens), 1, 4096),
      Int("ask.source_tokens", "Tokens of sources in the prompt: more costs time to the first word",
          FIELD(ask.source_tokens), 64, 1 << 20),
      Int("ask.history_turns", "Turns of a conversation that are read", FIELD(ask.history_turns), 0,
          64),

      Text("log.level",
           "debug, info, warning, error or off. Document text never appears above debug.",
           FIELD(log.level), OneOf({"debug", "info", "warning", "error", "off"})),
      Text("log.format", "text or json.", FIELD(log.format), OneOf({"text", "json"})),
  };
  for (ConfigKey& key : keys) key.is_secret = key.name == "http.api_key";
  return keys;
}

#undef FIELD

}  // namespace

const std::vector<ConfigKey>& ConfigKeys() {
  static const std::vector<ConfigKey>& keys = *new std::vector<ConfigKey>(MakeKeys());
  return keys;
}

const ConfigKey* FindConfigKey(std::string_view name) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string EnvironmentName(const ConfigKey& key) {
  std::string name = "CAIRN_" + absl::AsciiStrToUpper(key.name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace cairn::services
