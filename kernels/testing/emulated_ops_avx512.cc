// See emulated_avx512.h.
#define CAIRN_EMULATE_AVX512 1
#include "kernels/ops_avx512.cc"
