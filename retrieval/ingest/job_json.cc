#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/strings.h"
#include "retrieval/ingest/job_store.h"

namespace cairn::retrieval {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

constexpr std::string_view kStates[] = {"queued", "running", "succeeded", "failed", "cancelled"};
constexpr std::string_view kStages[] = {"waiting",   "parsing",    "chunking",
                                        "embedding", "committing", "done"};
constexpr std::string_view kOutcomes[] = {"", "created", "replaced", "unchanged"};

template <typename Enum, size_t N>
bool FromName(const std::string_view (&names)[N], std::string_view name, Enum* out) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] != name) continue;
    *out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

Json ToJson(const Metadata& metadata) {
  Json out = Json::object();
  for (const auto& [key, value] : metadata) {
    std::visit([&, key = key](const auto& v) { out[key] = v; }, value);
  }
  return out;
}

bool FromJson(const Json& json, Metadata* out) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) {
      (*out)[key] = value.get<std::string>();
    } else if (value.is_boolean()) {
      (*out)[key] = value.get<bool>();
    } else if (value.is_number_integer()) {
      (*out)[key] = value.get<int64_t>();
    } else if (value.is_number_float()) {
      (*out)[key] = value.get<double>();
    } else {
      return false;
    }
  }
  return true;
}

// Reads members of one type and remembers whether any was missing or of another type.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  std::string String(const char* key) {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_string()) return ok_ = false, std::string();
    return it->get<std::string>();
  }
  int64_t Int(const char* key) {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_number_integer()) return ok_ = false, 0;
    return it->get<int64_t>();
  }
  bool Bool(const char* key) {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_boolean()) return ok_ = false, false;
    return it->get<bool>();
  }
  bool ok() const { return ok_; }

 private:
  const Json& json_;
  bool ok_ = true;
};

}  // namespace

std::string_view JobStateName(JobState state) { return kStates[static_cast<int>(state)]; }
std::string_view JobStageName(JobStage stage) { return kStages[static_cast<int>(stage)]; }
std::string_view JobOutcomeName(JobOutcome outcome) { return kOutcomes[static_cast<int>(outcome)]; }

std::string JobToJson(const StoredJob& stored) {
  const Job& job = stored.job;
  Json json = {
      {"format", kFormat},
      {"id", job.id},
      {"collection", job.collection},
      {"document_id", job.document_id},
      {"media_type", job.media_type},
      {"metadata", ToJson(job.metadata)},
      {"sha256", job.sha256},
      {"source_bytes", job.source_bytes},
      {"chunk_tokens", job.chunk_tokens},
      {"state", JobStateName(job.state)},
      {"stage", JobStageName(job.stage)},
      {"outcome", JobOutcomeName(job.outcome)},
      {"version", job.version},
      {"chunks_total", job.chunks_total},
      {"attempts", job.attempts},
      {"failures", stored.failures},
      {"interruptions", stored.interruptions},
      {"vectors_bytes", stored.vectors_bytes},
      {"commit_begun", stored.commit_begun},
      {"base_version", stored.base_version},
      {"created_at_us", absl::ToUnixMicros(job.created_at)},
      {"updated_at_us", absl::ToUnixMicros(job.updated_at)},
      {"error_code", static_cast<int>(job.error.code())},
      {"error_message", std::string(ToStd(job.error.message()))},
      {"error_reason", ReasonOf(job.error)},
  };
  // An error message may quote bytes of the document.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<StoredJob> JobFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  Reader read(json);
  if (const int64_t format = read.Int("format"); format != kFormat) {
    return absl::InvalidArgumentError(StrCat("format ", format, " is not ", kFormat));
  }
  StoredJob out;
  Job& job = out.job;
  job.id = read.String("id");
  job.collection = read.String("collection");
  job.document_id = read.String("document_id");
  job.media_type = read.String("media_type");
  job.sha256 = read.String("sha256");
  job.source_bytes = static_cast<uint64_t>(read.Int("source_bytes"));
  job.chunk_tokens = static_cast<int>(read.Int("chunk_tokens"));
  job.version = static_cast<uint64_t>(read.Int("version"));
  job.chunks_total = static_cast<uint32_t>(read.Int("chunks_total"));
  job.attempts = static_cast<int>(read.Int("attempts"));
  out.failures = static_cast<int>(read.Int("failures"));
  out.interruptions = static_cast<int>(read.Int("interruptions"));
  out.vectors_bytes = static_cast<uint64_t>(read.Int("vectors_bytes"));
  out.commit_begun = read.Bool("commit_begun");
  out.base_version = static_cast<uint64_t>(read.Int("base_version"));
  job.created_at = absl::FromUnixMicros(read.Int("created_at_us"));
  job.updated_at = absl::FromUnixMicros(read.Int("updated_at_us"));
  const int64_t code = read.Int("error_code");
  const std::string message = read.String("error_message"), reason = read.String("error_reason");
  const bool names = FromName(kStates, read.String("state"), &job.state) &&
                     FromName(kStages, read.String("stage"), &job.stage) &&
                     FromName(kOutcomes, read.String("outcome"), &job.outcome);
  if (!names || !read.ok() || job.id.empty() || code < 0 || code > 16 ||
      !FromJson(json.value("metadata", Json()), &job.metadata)) {
    return absl::InvalidArgumentError("a member is missing or has a bad value");
  }
  if (code != 0) {
    job.error = absl::Status(static_cast<absl::StatusCode>(code), message);
    if (!reason.empty()) job.error = WithReason(job.error, reason);
  }
  if (job.state == JobState::kSucceeded) job.chunks_done = job.chunks_total;
  return out;
}

}  // namespace cairn::retrieval
