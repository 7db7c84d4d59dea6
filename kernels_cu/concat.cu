// Concat: y[r, first + c] = x[r, c]: one width's pooled features into their columns of the whole.
//
//   x  float32 [rows, columns]
//   y  float32 [rows, pitch]       columns first .. first + columns - 1 are written
//
// One thread an element of x, THREADS to a block.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
concat(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns, int first, int pitch) {
    const long long i = global_thread();
    if (i >= rows * columns) return;
    const long long row = i / columns;
    y[row * pitch + first + (i - row * columns)] = x[i];
}
