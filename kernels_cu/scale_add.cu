// Scale and add: m[r, h] = sum_e gate[r, e] * y[e, r, h]: the experts' outputs, weighed by the gate.
//
//   gate  float32 [rows, experts]
//   y     float32 [experts, rows, size]
//   m     float32 [rows, size]            written whole
//
// One thread an element of m, THREADS to a block; e runs upwards.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
scale_add(const float* __restrict__ gate, const float* __restrict__ y, float* __restrict__ m,
          long long rows, int experts, int size) {
    const long long i = global_thread();
    if (i >= rows * size) return;
    const float* weights = gate + i / size * experts;
    float sum = 0.0f;
    for (int e = 0; e < experts; ++e) sum += weights[e] * y[e * rows * size + i];
    m[i] = sum;
}
