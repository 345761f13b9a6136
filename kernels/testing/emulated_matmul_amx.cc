// See emulated_avx512.h.
#define CAIRN_EMULATE_AVX512 1
#include "kernels/matmul_amx.cc"
