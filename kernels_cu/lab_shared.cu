// Nothing but reads of shared memory: y[i] = `rounds` times the sum of column i % 32 of a table.
//
//   x  float32 [READS, 32]   the table, which every block brings into shared memory
//   y  float32 [count]       written whole
//
// A thread a value, THREADS to a block, a multiple of 32. The lanes of a warp read a row: all banks, each once.
#include "common.cuh"

#if !defined(THREADS) || !defined(READS)
#error "THREADS or READS not defined"
#endif

constexpr int CHAINS = 4;  // sums of a thread that do not wait for each other

extern "C" __global__ void __launch_bounds__(THREADS)
lab_shared(const float* __restrict__ x, float* __restrict__ y, long long count, int rounds) {
    __shared__ float table[READS * 32];
    for (int i = threadIdx.x; i < READS * 32; i += THREADS) table[i] = x[i];
    __syncthreads();
    const long long i = global_thread();
    if (i >= count) return;
    const volatile float* const column = table + threadIdx.x % 32;  // volatile: read anew in each round
    float sums[CHAINS] = {};
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int r = 0; r < READS; ++r) sums[r % CHAINS] += column[r * 32];
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += sums[c];
    y[i] = sum;
}
