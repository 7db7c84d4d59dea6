// Conv1D over ragged sentences: y[t, c] = bias[c] + sum_{d, j} weight[c, d, j] * x[t + j, d],
// for every window t that lies inside its sentence.
//
//   x        float32, sentence s begins at offsets[s] * dimension; its element (t, d) lies
//            t * token_stride + d * channel_stride further on. Token-major: strides (dimension, 1).
//            Channel first, sentences of one length: strides (1, length).
//   weight   float32 [filters, dimension, width]
//   bias     float32 [filters]
//   offsets  int32   [sentences + 1]       first token of each sentence
//   y        float32 [tokens, filters]     row offsets[s] + t; the last width - 1 rows of a sentence are left alone
//
// Naive: one block a sentence and THREADS filters, one thread a filter, which walks the windows.
#include "common.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
conv1d(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
       const int* __restrict__ offsets, float* __restrict__ y,
       int dimension, int filters, int width, int token_stride, int channel_stride) {
    const int filter = blockIdx.y * THREADS + threadIdx.x;
    if (filter >= filters) return;
    const long long first = offsets[blockIdx.x];
    const int windows = offsets[blockIdx.x + 1] - offsets[blockIdx.x] - width + 1;
    const float* sentence = x + first * dimension;
    const float* taps = weight + static_cast<long long>(filter) * dimension * width;
    for (int t = 0; t < windows; ++t) {
        float sum = 0.0f;
        const float* tap = taps;
        const float* channel = sentence + static_cast<long long>(t) * token_stride;
        for (int d = 0; d < dimension; ++d, channel += channel_stride) {
            for (int j = 0; j < width; ++j) {
                sum += *tap++ * channel[static_cast<long long>(j) * token_stride];
            }
        }
        y[(first + t) * filters + filter] = sum + bias[filter];
    }
}
