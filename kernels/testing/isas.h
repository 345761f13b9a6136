// The instruction sets that a test can run here: one test body for all of them.
#ifndef CAIRN_KERNELS_TESTING_ISAS_H_
#define CAIRN_KERNELS_TESTING_ISAS_H_

#include <vector>

#include "kernels/cpu.h"

namespace cairn::kernels {

inline std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (isa <= BestIsa()) isas.push_back(isa);
  }
  return isas;
}

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_TESTING_ISAS_H_
