#include "kernels/cpu.h"

#include <cstdio>
#include <cstdlib>

#include "common/status.h"
#include "common/strings.h"

namespace cairn::kernels {

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

Isa BestIsa() {
#if defined(__x86_64__)
  // These built-ins also ask whether the operating system saves the registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return Isa::kScalar;
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    return Isa::kAvx512;
  }
  return Isa::kAvx2;
#else
  return Isa::kScalar;
#endif
}

absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, Isa best) {
  if (wanted.empty()) return best;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (wanted != IsaName(isa)) continue;
    if (isa <= best) return isa;
    return WithReason(absl::FailedPreconditionError(StrCat(
                          "CAIRN_ISA=", wanted, ": this machine has ", IsaName(best), " at most")),
                      "ISA_UNAVAILABLE");
  }
  return absl::InvalidArgumentError(
      StrCat("CAIRN_ISA=", wanted, ": expected scalar, avx2 or avx512"));
}

const absl::StatusOr<Isa>& IsaOfProcess() {
  static const auto* const choice = [] {
    const char* wanted = std::getenv("CAIRN_ISA");
    return new absl::StatusOr<Isa>(ChooseIsa(wanted == nullptr ? "" : wanted, BestIsa()));
  }();
  return *choice;
}

Isa ActiveIsa() {
  const absl::StatusOr<Isa>& isa = IsaOfProcess();
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().ToString().c_str());
    std::abort();
  }
  return *isa;
}

}  // namespace cairn::kernels
