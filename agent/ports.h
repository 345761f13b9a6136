// What the answer pipeline and the agent loop need: a model, a retriever, a scorer, tools.
// Implemented in services/ and by scripted fakes in tests. All methods may block; all are
// thread-safe.
#ifndef CAIRN_AGENT_PORTS_H_
#define CAIRN_AGENT_PORTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

struct Message {
  enum class Role { kSystem, kUser, kAssistant, kTool };
  Role role = Role::kUser;
  std::string content;
};

struct ModelRequest {
  std::vector<Message> messages;
  std::string tools_json;  // JSON array of function schemas in the OpenAI form, or empty
  int max_tokens = 512;
  float temperature = 0;
  uint64_t seed = 0;
  std::vector<std::string> stop;
};

struct ModelReply {
  std::string text;
  bool truncated = false;  // ended by max_tokens
  int prompt_tokens = 0;
  int completion_tokens = 0;
};

// Returning false stops the generation.
using TextCallback = std::function<bool(std::string_view delta)>;

class Model {
 public:
  virtual ~Model() = default;
  virtual absl::StatusOr<ModelReply> Generate(const RequestContext& context,
                                              const ModelRequest& request,
                                              const TextCallback& on_text) = 0;
  virtual absl::StatusOr<int> CountTokens(const RequestContext& context, std::string_view text) = 0;
  virtual absl::StatusOr<int> ContextWindow(const RequestContext& context) = 0;
};

// A run of passage text and of the source bytes it came from; equal sizes mean equal bytes.
struct TextRun {
  uint64_t text_begin = 0, text_size = 0, source_begin = 0, source_size = 0;
};

struct Passage {
  std::string chunk_id;
  std::string document_id;
  uint64_t version = 0;
  std::string title;
  std::vector<std::string> heading_path;
  std::string text;    // UTF-8
  std::string source;  // the original bytes of [span_begin, span_end)
  uint64_t span_begin = 0, span_end = 0;
  std::vector<TextRun> runs;  // absolute source offsets
  std::string parent_id;
  uint32_t ordinal = 0;
  std::string language;
  double score = 0;          // final score of the query pipeline, 0..1
  double lexical_score = 0;  // BM25, 0 when not found by it
  double vector_score = 0;   // cosine, 0 when not found by it
  double rerank_score = 0;   // raw logit; meaningful when has_rerank
  bool has_rerank = false;
};

struct SearchRequest {
  std::string collection;
  std::string query;
  int top_k = 8;
  std::map<std::string, std::string> equals;  // metadata filter
};

class Retriever {
 public:
  virtual ~Retriever() = default;
  virtual absl::StatusOr<std::vector<Passage>> Search(const RequestContext& context,
                                                      const SearchRequest& request) = 0;
  virtual absl::StatusOr<Passage> FetchChunk(const RequestContext& context,
                                             std::string_view collection,
                                             std::string_view chunk_id) = 0;
};

// Relevance of texts to a query by a cross-encoder and by embeddings; used to match answer
// sentences to source sentences.
class SupportScorer {
 public:
  virtual ~SupportScorer() = default;
  // Cosine similarity of `text` to each candidate, [-1, 1].
  virtual absl::StatusOr<std::vector<float>> Similarity(
      const RequestContext& context, std::string_view text,
      std::span<const std::string_view> candidates) = 0;
};

// JSON in, JSON or text out. Arguments have been validated against the schema before Call.
class Tool {
 public:
  virtual ~Tool() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view description() const = 0;
  virtual std::string_view parameters_schema() const = 0;  // JSON Schema of an object
  virtual absl::Duration timeout() const = 0;
  virtual absl::StatusOr<std::string> Call(const RequestContext& context,
                                           std::string_view arguments_json) = 0;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_PORTS_H_
