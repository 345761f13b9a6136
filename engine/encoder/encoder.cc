#include "engine/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

#include "common/file.h"
#include "common/strings.h"
#include "engine/encoder/bert_model.h"

namespace cairn::engine {
namespace {

class BertEncoder final : public Encoder {
 public:
  BertEncoder(std::unique_ptr<WorkerPool> pool, std::unique_ptr<BertModel> model,
              std::unique_ptr<Tokenizer> tokenizer, std::string fingerprint, int batch_token_budget)
      : pool_(std::move(pool)),
        model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        fingerprint_(std::move(fingerprint)),
        batch_token_budget_(batch_token_budget) {}

  absl::StatusOr<EmbedResult> Embed(const RequestContext& context,
                                    std::span<const std::string_view> texts,
                                    TextKind kind) override;
  absl::StatusOr<RerankResult> Rerank(const RequestContext& context, std::string_view query,
                                      std::span<const std::string_view> passages) override;

  bool is_cross_encoder() const override { return model_->config().pooling == Pooling::kRank; }
  int dimension() const override { return is_cross_encoder() ? 0 : model_->config().hidden; }
  int max_tokens() const override { return model_->config().context_length; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::string_view prefix(TextKind kind) const override;
  std::string fingerprint() const override { return fingerprint_; }
  int64_t weight_bytes() const override { return model_->weight_bytes(); }

 private:
  // True when a batch that holds tokens has no room for `more`.
  bool IsFull(const RaggedBatch& batch, size_t more) const {
    return batch.num_tokens() > 0 &&
           batch.num_tokens() + more > static_cast<size_t>(batch_token_budget_);
  }
  // Cuts to the window, keeping the last (special) token; true when it had to.
  bool Cut(std::vector<TokenId>* ids) const;
  absl::Status EmbedBatch(const RequestContext& context, const RaggedBatch& batch, float* vectors);
  absl::Status RerankBatch(const RequestContext& context, const RaggedBatch& batch,
                           std::vector<float>* scores);

  const std::unique_ptr<WorkerPool> pool_;
  const std::unique_ptr<BertModel> model_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::string fingerprint_;
  const int batch_token_budget_;
  std::mutex mutex_;  // held for one batch at a time, so that a short call waits for a batch, not
                      // for a call
  BertWorkspace workspace_;
};

void Append(const std::vector<TokenId>& ids, RaggedBatch* batch) {
  batch->ids.insert(batch->ids.end(), ids.begin(), ids.end());
  batch->offsets.push_back(static_cast<int32_t>(batch->ids.size()));
}

std::string_view BertEncoder::prefix(TextKind kind) const {
  switch (kind) {
    case TextKind::kQuery:
      return model_->config().query_prefix;
    case TextKind::kPassage:
      return model_->config().passage_prefix;
    case TextKind::kRaw:
      break;
  }
  return "";
}

bool BertEncoder::Cut(std::vector<TokenId>* ids) const {
  const size_t limit = static_cast<size_t>(max_tokens());
  if (ids->size() <= limit) return false;
  const TokenId last = ids->back();
  ids->resize(limit);
  ids->back() = last;
  return true;
}

absl::StatusOr<EmbedResult> BertEncoder::Embed(const RequestContext& context,
                                               std::span<const std::string_view> texts,
                                               TextKind kind) {
  if (is_cross_encoder()) {
    return absl::FailedPreconditionError(
        StrCat("model '", model_->config().name, "' is a cross-encoder and gives no embeddings"));
  }
  EmbedResult result;
  result.vectors.resize(texts.size() * dimension());
  RaggedBatch batch;
  size_t first = 0;  // text of the batch's first sequence
  for (size_t i = 0; i < texts.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (tokenizer_->Encode(texts[i]).empty())
      return InvalidField(StrCat("texts[", i, "]"), "the text is blank");
    std::vector<TokenId> ids =
        tokenizer_->Encode(StrCat(prefix(kind), texts[i]), {.add_special = true});
    result.truncated.push_back(Cut(&ids));
    result.token_counts.push_back(static_cast<int>(ids.size()));
    if (IsFull(batch, ids.size())) {
      CAIRN_RETURN_IF_ERROR(
          EmbedBatch(context, batch, result.vectors.data() + first * dimension()));
      batch = {};
      first = i;
    }
    Append(ids, &batch);
  }
  if (batch.num_tokens() > 0) {
    CAIRN_RETURN_IF_ERROR(EmbedBatch(context, batch, result.vectors.data() + first * dimension()));
  }
  return result;
}

absl::Status BertEncoder::EmbedBatch(const RequestContext& context, const RaggedBatch& batch,
                                     float* vectors) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_RETURN_IF_ERROR(model_->Forward(context, batch, *pool_, &workspace_));
  for (int s = 0; s < batch.num_sequences(); ++s) {
    float* vector = vectors + int64_t{s} * dimension();
    model_->Pool(workspace_.x.data() + int64_t{batch.offsets[s]} * dimension(),
                 batch.offsets[s + 1] - batch.offsets[s], vector);
    if (!std::isfinite(vector[0])) {
      return absl::InternalError(
          StrCat("model '", model_->config().name, "' gave a vector that is not finite"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RerankResult> BertEncoder::Rerank(const RequestContext& context,
                                                 std::string_view query,
                                                 std::span<const std::string_view> passages) {
  if (!is_cross_encoder()) {
    return absl::FailedPreconditionError(
        StrCat("model '", model_->config().name, "' has no classifier head and cannot rerank"));
  }
  if (tokenizer_->Encode(query).empty()) return InvalidField("query", "the text is blank");
  RerankResult result;
  RaggedBatch batch;
  for (const std::string_view passage : passages) {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::vector<int32_t> type_ids;
    bool truncated = false;
    const std::vector<TokenId> ids =
        tokenizer_->EncodePair(query, passage, max_tokens(), &type_ids, &truncated);
    if (ids.size() > static_cast<size_t>(max_tokens())) {
      return InvalidField(
          "query", StrCat("leaves no room for a passage in a window of ", max_tokens(), " tokens"));
    }
    if (IsFull(batch, ids.size())) {
      CAIRN_RETURN_IF_ERROR(RerankBatch(context, batch, &result.scores));
      batch = {};
    }
    Append(ids, &batch);
    batch.type_ids.insert(batch.type_ids.end(), type_ids.begin(), type_ids.end());
    result.truncated.push_back(truncated);
    result.num_tokens += static_cast<int64_t>(ids.size());
  }
  if (batch.num_tokens() > 0) CAIRN_RETURN_IF_ERROR(RerankBatch(context, batch, &result.scores));
  return result;
}

absl::Status BertEncoder::RerankBatch(const RequestContext& context, const RaggedBatch& batch,
                                      std::vector<float>* scores) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_RETURN_IF_ERROR(model_->Forward(context, batch, *pool_, &workspace_));
  for (const float score : model_->Classify(batch, workspace_, *pool_)) {
    if (!std::isfinite(score)) {
      return absl::InternalError(
          StrCat("model '", model_->config().name, "' gave a score that is not finite"));
    }
    scores->push_back(score);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::Load(const std::string& path,
                                                       const EncoderOptions& options) {
  if (options.num_threads < 0)
    return InvalidField("num_threads", StrCat(options.num_threads, " is negative"));
  if (options.batch_token_budget <= 0) {
    return InvalidField("batch_token_budget",
                        StrCat(options.batch_token_budget, " is not positive"));
  }
  const int threads = options.num_threads > 0
                          ? options.num_threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto pool = std::make_unique<WorkerPool>(threads);
  CAIRN_ASSIGN_OR_RETURN(auto model, BertModel::Load(path, *pool));
  CAIRN_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(model->file()));
  if (tokenizer->vocab_size() > model->num_words()) {
    return absl::InvalidArgumentError(StrCat(path, ": ", tokenizer->vocab_size(),
                                             " tokens but only ", model->num_words(),
                                             " rows in token_embd.weight"));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string hash, Sha256HexOfFile(path));
  std::string fingerprint = StrCat(model->config().name, "/", PoolingName(model->config().pooling),
                                   "/", hash.substr(0, 16));
  return std::make_unique<BertEncoder>(std::move(pool), std::move(model), std::move(tokenizer),
                                       std::move(fingerprint), options.batch_token_budget);
}

}  // namespace cairn::engine
