// Skinny: y[m, n] = bias[n] + sum_k a[m, k] * weight[n, k], for a handful of columns: the labels, the gate.
//
//   a       float32 [rows, depth]
//   weight  float32 [OUTPUTS, depth]
//   bias    float32 [OUTPUTS]
//   y       float32 [rows, OUTPUTS]   written whole
//
// One warp a row, THREADS / 32 rows to a block: the time is that of reading `a`, which a tile of SGEMM would not make
// shorter. A lane sums every 32nd quad of k, then the lanes' sums meet: the order depends on depth alone.
#include "common.cuh"

#if !defined(THREADS) || !defined(OUTPUTS)
#error "THREADS or OUTPUTS not defined"
#endif

// Four values from k on; zeros past `depth`. One load where quads are aligned.
__device__ __forceinline__ float4 quad(const float* row, int k, int depth, bool aligned) {
    if (aligned) return *reinterpret_cast<const float4*>(row + k);
    return make_float4(row[k], k + 1 < depth ? row[k + 1] : 0.0f, k + 2 < depth ? row[k + 2] : 0.0f,
                       k + 3 < depth ? row[k + 3] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(THREADS)
skinny(const float* __restrict__ a, const float* __restrict__ weight, const float* __restrict__ bias,
       float* __restrict__ y, long long rows, int depth) {
    const int lane = threadIdx.x % 32;
    const long long row = global_thread() / 32;
    if (row >= rows) return;
    const auto address = reinterpret_cast<unsigned long long>(a) | reinterpret_cast<unsigned long long>(weight);
    const bool aligned = address % 16 == 0 && depth % 4 == 0;
    const float* values = a + row * depth;
    float sums[OUTPUTS] = {};
    for (int k = lane * 4; k < depth; k += 128) {
        const float4 x = quad(values, k, depth, aligned);
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            const float4 w = quad(weight + static_cast<long long>(n) * depth, k, depth, aligned);
            sums[n] = fmaf(x.w, w.w, fmaf(x.z, w.z, fmaf(x.y, w.y, fmaf(x.x, w.x, sums[n]))));
        }
    }
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
#pragma unroll
        for (int apart = 16; apart; apart /= 2) sums[n] += __shfl_xor_sync(0xFFFFFFFFu, sums[n], apart);
        if (lane == n) y[row * OUTPUTS + n] = sums[n] + bias[n];
    }
}
