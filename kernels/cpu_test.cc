#include "kernels/cpu.h"

#include "gtest/gtest.h"

namespace cairn::kernels {
namespace {

TEST(CpuTest, EmptyMeansBest) {
  for (Isa best : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    EXPECT_EQ(*ChooseIsa("", best), best);
  }
}

TEST(CpuTest, LowerIsaMayBeAskedFor) {
  EXPECT_EQ(*ChooseIsa("scalar", Isa::kAvx512), Isa::kScalar);
  EXPECT_EQ(*ChooseIsa("avx512", Isa::kAmx), Isa::kAvx512);
  EXPECT_EQ(*ChooseIsa("avx2", Isa::kAvx2), Isa::kAvx2);
}

TEST(CpuTest, MissingIsaIsAnError) {
  EXPECT_EQ(ChooseIsa("amx", Isa::kAvx512).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ChooseIsa("avx512", Isa::kAvx2).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ChooseIsa("avx2", Isa::kScalar).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CpuTest, UnknownNameIsAnError) {
  for (const char* name : {"AVX2", "avx", "neon", " "}) {
    EXPECT_EQ(ChooseIsa(name, Isa::kAvx512).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace cairn::kernels
