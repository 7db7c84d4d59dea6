// SoftMax over each row: y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(x[r, c] - max_c x[r, c]).
//
//   x  float32 [rows, columns]
//   y  float32 [rows, columns]   written whole; may be x itself
//
// One thread a row, THREADS to a block: rows have a handful of columns (experts, labels).
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const float* x, float* y, long long rows, int columns) {
    const long long row = global_thread();
    if (row >= rows) return;
    const float* in = x + row * columns;
    float* out = y + row * columns;
    float largest = in[0];
    for (int c = 1; c < columns; ++c) {
        if (in[c] > largest) largest = in[c];
    }
    float sum = 0.0f;
    for (int c = 0; c < columns; ++c) {
        const float value = expf(in[c] - largest);
        out[c] = value;
        sum += value;
    }
    for (int c = 0; c < columns; ++c) out[c] /= sum;
}
