// Nothing but fma: y[i] = the sum of CHAINS values, of which value c is x[i] + c at first, and `rounds` times becomes
// itself times `scale` plus `shift`.
//
//   x  float32 [count]
//   y  float32 [count]   written whole
//
// A thread a y, THREADS to a block. Its values do not wait for each other, so that the fma units wait for none.
#include "common.cuh"

#if !defined(THREADS) || !defined(CHAINS)
#error "THREADS or CHAINS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
lab_fma(const float* __restrict__ x, float* __restrict__ y, float scale, float shift, long long count, int rounds) {
    const long long i = global_thread();
    if (i >= count) return;
    float values[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) values[c] = x[i] + c;
#pragma unroll 16
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) values[c] = fmaf(values[c], scale, shift);
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += values[c];
    y[i] = sum;
}
