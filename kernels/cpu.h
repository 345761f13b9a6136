// Which instruction set the kernels use: the best that the processor and the operating system
// offer, or the one that the environment asks for with CAIRN_ISA=scalar|avx2|avx512|amx.
#ifndef CAIRN_KERNELS_CPU_H_
#define CAIRN_KERNELS_CPU_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/cpu_isa.h"

namespace cairn::kernels {

std::string_view IsaName(Isa isa);

// The best instruction set of this machine.
Isa BestIsa();

// `wanted` as in CAIRN_ISA; empty means `best`. INVALID_ARGUMENT for an unknown name,
// FAILED_PRECONDITION for one beyond `best`.
absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, Isa best);

// The choice of this process, made on the first call. A program should check it when it starts, to
// report a bad CAIRN_ISA as an error.
const absl::StatusOr<Isa>& IsaOfProcess();

// The same for kernels: a bad CAIRN_ISA ends the process with the message.
Isa ActiveIsa();

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_CPU_H_
