// Linear: y[r, n] = bias[n] + sum_k weight[n, k] * x[r, k].
//
//   x       float32 [rows, inputs]
//   weight  float32 [outputs, inputs]
//   bias    float32 [outputs]
//   y       float32 [rows, outputs]   written whole
//
// Naive: one thread an output, THREADS to a block; k runs upwards, so a row's result depends on that row alone.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
linear(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
       float* __restrict__ y, long long rows, int inputs, int outputs) {
    const long long i = global_thread();
    if (i >= rows * outputs) return;
    const long long row = i / outputs;
    const long long output = i - row * outputs;
    const float* a = x + row * inputs;
    const float* b = weight + output * inputs;
    float sum = 0.0f;
    for (int k = 0; k < inputs; ++k) sum += a[k] * b[k];
    y[i] = sum + bias[output];
}
