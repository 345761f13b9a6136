// cairn.inference.v1 -> the engine's plain structs. Fields are checked against the limits written
// in the contract, except those of a generation, which the engine checks itself and by the same
// names.
#ifndef CAIRN_SERVICES_INFERENCE_CONVERT_H_
#define CAIRN_SERVICES_INFERENCE_CONVERT_H_

#include <string>
#include <string_view>
#include <vector>

#include "cairn/inference/v1/inference_service.pb.h"
#include "common/status.h"
#include "engine/chat/chat_template.h"
#include "engine/encoder/encoder.h"
#include "engine/engine.h"

namespace cairn::services {

engine::GenerateOptions ReadGenerateOptions(const inference::v1::GenerateRequest& request);
absl::StatusOr<std::vector<engine::ChatMessage>> ReadChat(const inference::v1::Chat& chat);
absl::StatusOr<engine::TextKind> ReadEmbedKind(inference::v1::EmbedKind kind);

// 1 to `max_count` texts of UTF-8, none blank when `blank_allowed` is false. The views point into
// the request.
absl::StatusOr<std::vector<std::string_view>> ReadTexts(
    const google::protobuf::RepeatedPtrField<std::string>& texts, std::string_view field,
    int max_count, bool blank_allowed);

void WriteResult(const engine::GenerateResult& result, const engine::Tokenizer& tokenizer,
                 inference::v1::GenerateCompleted* out);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_INFERENCE_CONVERT_H_
