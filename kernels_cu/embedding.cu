// Embedding: x[t, d] = table[ids[t], d].
//
//   ids    int32   [tokens]               every id lies in [0, vocabulary)
//   table  float32 [vocabulary, dimension]
//   x      float32 [tokens, dimension]    written whole
//
// One thread an element, THREADS to a block; neighbouring threads read neighbouring floats of one row.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
embedding(const int* __restrict__ ids, const float* __restrict__ table, float* __restrict__ x,
          long long tokens, int dimension) {
    const long long i = global_thread();
    if (i >= tokens * dimension) return;
    const long long token = i / dimension;
    const long long column = i - token * dimension;
    x[i] = table[static_cast<long long>(ids[token]) * dimension + column];
}
