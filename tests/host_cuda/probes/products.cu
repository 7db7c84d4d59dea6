// One mma: d = c + a b, a row by row and b column by column. A probe.
//
//   a  uint32 [16, DEPTH / 2] pairs of 16 bits, or [16, DEPTH] tf32
//   b  the same for [8] columns
//   c  float32 [16, 8]
//   d  float32 [16, 8]
//   KIND: 0 f16, 1 bf16 (DEPTH 16), 2 tf32 (DEPTH 8); either way a row has 8 words
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(32)
products(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ c,
         float* __restrict__ d) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const unsigned left[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]};
    const unsigned right[2] = {b[g * 8 + t], b[g * 8 + t + 4]};
    const int at[4] = {g * 8 + 2 * t, g * 8 + 2 * t + 1, (g + 8) * 8 + 2 * t, (g + 8) * 8 + 2 * t + 1};
    float sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = c[at[i]];
    if (KIND == 0) ptx::mma_m16n8k16_f16(sum, left, right);
    if (KIND == 1) ptx::mma_m16n8k16_bf16(sum, left, right);
    if (KIND == 2) ptx::mma_m16n8k8_tf32(sum, left, right);
    for (int i = 0; i < 4; ++i) d[at[i]] = sum[i];
}
