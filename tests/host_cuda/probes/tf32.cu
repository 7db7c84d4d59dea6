// Rounding to tf32, ties away from zero and ties to even. A probe.
//
//   x    float32 [count]
//   out  uint32  [2, count]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(256)
tf32(const float* __restrict__ x, unsigned* __restrict__ out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    out[i] = ptx::cvt_rna_tf32(x[i]);
    out[count + i] = ptx::cvt_rn_tf32(x[i]);
}
