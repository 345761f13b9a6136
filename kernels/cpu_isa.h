// The instruction sets that kernels are written for, in ascending order. See cpu.h.
#ifndef CAIRN_KERNELS_CPU_ISA_H_
#define CAIRN_KERNELS_CPU_ISA_H_

namespace cairn::kernels {

enum class Isa {
  kScalar,
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // the above with AVX-512 F, BW, DQ, VL and VNNI
  kAmx,     // the above with AMX TILE, INT8 and BF16, and the system's permission to use them
};

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_CPU_ISA_H_
