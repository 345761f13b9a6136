#include "kernels/dtype.h"

#include "common/check.h"

namespace cairn::kernels {
namespace {

struct Entry {
  DType type;
  DTypeInfo info;
};

constexpr Entry kTypes[] = {
    {DType::kF32, {"F32", 1, 4}},       {DType::kF16, {"F16", 1, 2}},
    {DType::kBF16, {"BF16", 1, 2}},     {DType::kQ4_0, {"Q4_0", 32, 18}},
    {DType::kQ4_1, {"Q4_1", 32, 20}},   {DType::kQ5_0, {"Q5_0", 32, 22}},
    {DType::kQ5_1, {"Q5_1", 32, 24}},   {DType::kQ8_0, {"Q8_0", 32, 34}},
    {DType::kQ4_K, {"Q4_K", 256, 144}}, {DType::kQ5_K, {"Q5_K", 256, 176}},
    {DType::kQ6_K, {"Q6_K", 256, 210}}, {DType::kQ2_K, {"Q2_K", 256, 84}},
    {DType::kQ3_K, {"Q3_K", 256, 110}}, {DType::kIQ4_NL, {"IQ4_NL", 32, 18}},
    {DType::kMXFP4, {"MXFP4", 32, 17}},
};

}  // namespace

std::optional<DType> DTypeFromGgml(uint32_t number) {
  for (const Entry& entry : kTypes) {
    if (static_cast<uint32_t>(entry.type) == number) return entry.type;
  }
  return std::nullopt;
}

const DTypeInfo& Info(DType type) {
  for (const Entry& entry : kTypes) {
    if (entry.type == type) return entry.info;
  }
  CAIRN_CHECK(false && "unknown dtype");
}

}  // namespace cairn::kernels
