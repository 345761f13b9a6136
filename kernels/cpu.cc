#include "kernels/cpu.h"

#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "common/status.h"
#include "common/strings.h"

namespace cairn::kernels {
namespace {

#if defined(__x86_64__)
// Clang 14's __builtin_cpu_supports does not know this name.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// Whether the processor has the tile instructions and Linux lets this process use them: it must ask
// once, since tiles make the state of each of its threads 8 KiB larger.
bool HasAmx() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((edx & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8)) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

Isa BestIsa() {
#if defined(__x86_64__)
  // These built-ins also ask whether the operating system saves the registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !HasF16c()) {
    return Isa::kScalar;
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    return HasAmx() ? Isa::kAmx : Isa::kAvx512;
  }
  return Isa::kAvx2;
#else
  return Isa::kScalar;
#endif
}

absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, Isa best) {
  if (wanted.empty()) return best;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (wanted != IsaName(isa)) continue;
    if (isa <= best) return isa;
    return WithReason(absl::FailedPreconditionError(StrCat(
                          "CAIRN_ISA=", wanted, ": this machine has ", IsaName(best), " at most")),
                      "ISA_UNAVAILABLE");
  }
  return absl::InvalidArgumentError(
      StrCat("CAIRN_ISA=", wanted, ": expected scalar, avx2, avx512 or amx"));
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
