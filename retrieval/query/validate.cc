#include "retrieval/query/validate.h"

#include <cmath>

#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/query/filter.h"

namespace cairn::retrieval {
namespace {

bool ShowsNothing(char32_t c) {
  return c <= 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200F) || (c >= 0x2028 && c <= 0x202F) ||
         (c >= 0x205F && c <= 0x206F) || c == 0x3000 || c == 0x3164 ||
         (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF || (c >= 0xE0000 && c <= 0xE0FFF);
}

absl::Status CheckRange(std::string_view field, int value, int most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return InvalidField(field, StrCat("must be 1 to ", most, ", not ", value));
}

absl::Status CheckWeight(std::string_view field, double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();  // false for NaN
  return InvalidField(field, StrCat("must be in [0, 1], not ", value));
}

}  // namespace

std::string_view ScoreKindName(ScoreKind kind) {
  switch (kind) {
    case ScoreKind::kBm25:
      return "bm25";
    case ScoreKind::kCosine:
      return "cosine";
    case ScoreKind::kConvex:
      return "convex";
    case ScoreKind::kRrf:
      return "rrf";
    case ScoreKind::kReranked:
      return "reranked";
  }
  return "";
}

bool IsBlank(std::string_view text) {
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    if (!ShowsNothing(DecodeUtf8(text, i, &length))) return false;
  }
  return true;
}

absl::Status ValidateQuery(const SearchQuery& query) {
  if (query.text.size() > kMaxQueryBytes) {
    return InvalidField("text",
                        StrCat("at most ", kMaxQueryBytes, " bytes, not ", query.text.size()));
  }
  if (!IsValidUtf8(query.text)) return InvalidField("text", "is not valid UTF-8");
  const bool vector_alone = query.mode == SearchMode::kVector && !query.vector.empty() &&
                            query.rerank.mode != RerankMode::kOn;
  if (!vector_alone && IsBlank(query.text)) return InvalidField("text", "is blank");
  CAIRN_RETURN_IF_ERROR(CheckRange("top_k", query.top_k, kMaxTopK));
  CAIRN_RETURN_IF_ERROR(CheckRange("candidates", query.candidates, kMaxCandidates));
  CAIRN_RETURN_IF_ERROR(CheckRange("rerank.top", query.rerank.top, kMaxRerankTop));
  CAIRN_RETURN_IF_ERROR(CheckWeight("rerank.weight", query.rerank.weight));
  CAIRN_RETURN_IF_ERROR(CheckWeight("fusion.vector_weight", query.fusion.vector_weight));
  if (!(query.fusion.rrf_k > 0 && query.fusion.rrf_k <= 10000)) {
    return InvalidField("fusion.rrf_k", StrCat("must be in (0, 10000], not ", query.fusion.rrf_k));
  }
  return ValidateFilter(query.filter);
}

}  // namespace cairn::retrieval
