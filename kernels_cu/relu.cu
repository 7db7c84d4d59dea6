// ReLU in place: y[i] = max(y[i], 0). A NaN stays a NaN.
//
//   y  float32 [count]
//
// One thread an element, THREADS to a block.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
relu(float* __restrict__ y, long long count) {
    const long long i = global_thread();
    if (i >= count) return;
    if (y[i] < 0.0f) y[i] = 0.0f;
}
