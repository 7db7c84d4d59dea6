// SoftMax over each row: y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(x[r, c] - max_c x[r, c]).
//
//   x  float32 [rows, columns]
//   y  float32 [rows, columns]   written whole; may be x itself
//
// One thread a row, THREADS to a block: rows have a handful of columns (experts, labels).
#include "common.cuh"
#include "row.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const float* x, float* y, long long rows, int columns) {
    const long long row = global_thread();
    if (row >= rows) return;
    softmax_of(x + row * columns, y + row * columns, columns);
}
