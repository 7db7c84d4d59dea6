// ArgMax over each row: label[r] = the first column that holds the row's largest value. A NaN counts as the largest.
//
//   x      float32 [rows, columns]
//   label  int32   [rows]            written whole
//
// One thread a row, THREADS to a block.
#include "common.cuh"
#include "row.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
argmax(const float* __restrict__ x, int* __restrict__ label, long long rows, int columns) {
    const long long row = global_thread();
    if (row >= rows) return;
    label[row] = argmax_of(x + row * columns, columns);
}
