// ServerConfig: everything about `cairn serve` that can be set, from one YAML file, the environment
// and flags, later ones winning.
//
// Every key is one row of a table in config.cc: name, documentation, type, limits, default. The
// commented sample (deploy/cairn.sample.yaml) is that table printed, and a test keeps them equal.
//
// Errors: INVALID_ARGUMENT with "FILE:LINE: " (or the variable or flag at fault) for unknown keys,
//         duplicates, and values out of range.
#ifndef CAIRN_SERVICES_CONFIG_CONFIG_H_
#define CAIRN_SERVICES_CONFIG_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace cairn::services {

struct ServerConfig {
  std::string data_dir;
  std::string listen = "127.0.0.1:7400";
  std::vector<std::string> roles = {"inference", "ingest", "retrieval", "agent", "gateway"};

  struct Addresses {
    std::string inference, ingest, retrieval, agent;
  } addresses;

  struct Http {
    std::string listen = "127.0.0.1:7480";
    std::string api_key;
    std::vector<std::string> cors_origins;
    int64_t max_body_bytes = 4 << 20;
    int64_t max_connections = 128;
  } http;

  struct Models {
    std::string generator = "qwen2.5-coder-1.5b";
    std::string embedder = "multilingual-e5-small";
    std::string reranker = "ms-marco-minilm-l12-v2";
    int64_t context_tokens = 8192;
    int64_t kv_tokens = 0;
    int64_t max_running = 8;
    int64_t step_tokens = 512;
    int64_t max_stall_ms = 250;
    std::string queue_policy = "first_come";
    int64_t threads = 0;
  } models;

  struct Limits {
    int64_t max_message_bytes = 16 << 20;
    int64_t max_document_bytes = 256 << 20;
    int64_t threads_per_role = 32;
    int64_t queue_per_role = 64;
    int64_t max_uploads = 32;
    int64_t max_watches = 64;
    int64_t stall_seconds = 120;
    int64_t drain_seconds = 10;
  } limits;

  struct Ingest {
    int64_t workers = 2;
    int64_t chunk_tokens = 256;
    int64_t max_queued_jobs = 10'000;
  } ingest;

  struct Retrieval {
    double vector_weight = 0.5;
    int64_t candidates = 100;
    int64_t rerank_top = 20;
    double rerank_weight = 0.5;
    bool sync_commits = true;
  } retrieval;

  struct Ask {
    int64_t top_k = 8;
    int64_t max_tokens = 512;
    int64_t source_tokens = 1200;
    int64_t history_turns = 4;
  } ask;

  struct Log {
    std::string level = "info";
    std::string format = "text";
  } log;

  bool HasRole(std::string_view role) const;
  // data_dir, or its default.
  std::string DataDir() const;
};

// Reads the file over `*config`.
absl::Status ReadConfigFile(const std::string& path, ServerConfig* config);
// The same for text; `name` stands for the file in messages.
absl::Status ReadConfigText(std::string_view yaml, std::string_view name, ServerConfig* config);

// CAIRN_LIMITS_MAX_UPLOADS=8 sets limits.max_uploads. `environment` holds NAME=VALUE strings; names
// that are no key are left alone.
absl::Status ReadConfigEnvironment(const std::vector<std::string>& environment,
                                   ServerConfig* config);

// One key: `value` as in YAML for scalars, comma-separated for lists.
absl::Status SetConfigKey(std::string_view key, std::string_view value, ServerConfig* config);

// What no single key can say: roles that need an address, an open address that needs a key.
absl::Status CheckConfig(const ServerConfig& config);

// The whole configuration as commented YAML. Secrets that are set are masked.
std::string PrintConfig(const ServerConfig& config);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_CONFIG_CONFIG_H_
