// A model file with every weight in F32: nothing is rounded in products with it, which makes it the
// reference for the file that it comes from.
#ifndef CAIRN_ENGINE_TESTING_FLOAT_COPY_H_
#define CAIRN_ENGINE_TESTING_FLOAT_COPY_H_

#include <string>

#include "common/status.h"

namespace cairn::engine::testing {

// Writes to `target` the metadata of the GGUF file `source` and its tensors dequantised. Holds
// twice the new file in memory meanwhile.
absl::Status WriteFloatCopy(const std::string& source, const std::string& target);

}  // namespace cairn::engine::testing

#endif  // CAIRN_ENGINE_TESTING_FLOAT_COPY_H_
