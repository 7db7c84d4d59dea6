// GetMax: pooled[s, c] = max over the windows t of sentence s of y[offsets[s] + t, c]. A NaN wins.
//
//   y        float32 [tokens, filters]      as conv1d leaves it
//   offsets  int32   [sentences + 1]        every sentence has at least `width` tokens
//   pooled   float32 [sentences, filters]   written whole
//
// One block a sentence and THREADS filters, one thread a filter.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
getmax(const float* __restrict__ y, const int* __restrict__ offsets, float* __restrict__ pooled,
       int filters, int width) {
    const int filter = blockIdx.y * THREADS + threadIdx.x;
    if (filter >= filters) return;
    const long long first = offsets[blockIdx.x];
    const int windows = offsets[blockIdx.x + 1] - offsets[blockIdx.x] - width + 1;
    const float* column = y + first * filters + filter;
    float largest = column[0];
    for (int t = 1; t < windows; ++t) {
        const float value = column[static_cast<long long>(t) * filters];
        if (value > largest || value != value) largest = value;
    }
    pooled[static_cast<long long>(blockIdx.x) * filters + filter] = largest;
}
