// ArgMax over each row: label[r] = the first column that holds the row's largest value. A NaN counts as the largest.
//
//   x      float32 [rows, columns]
//   label  int32   [rows]            written whole
//
// One thread a row, THREADS to a block.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
argmax(const float* __restrict__ x, int* __restrict__ label, long long rows, int columns) {
    const long long row = global_thread();
    if (row >= rows) return;
    const float* in = x + row * columns;
    int best = 0;
    for (int c = 1; c < columns; ++c) {
        if (in[best] == in[best] && !(in[c] <= in[best])) best = c;
    }
    label[row] = best;
}
