// A row of a handful of columns: experts, labels. One thread takes all of it.
#pragma once

// y[c] = exp(x[c] - max x) / sum exp(x - max x); y may be x.
__device__ __forceinline__ void softmax_of(const float* x, float* y, int columns) {
    float largest = x[0];
    for (int c = 1; c < columns; ++c) {
        if (x[c] > largest) largest = x[c];
    }
    float sum = 0.0f;
    for (int c = 0; c < columns; ++c) {
        const float value = expf(x[c] - largest);
        y[c] = value;
        sum += value;
    }
    for (int c = 0; c < columns; ++c) y[c] /= sum;
}

// The first column that holds the largest value. A NaN counts as the largest.
__device__ __forceinline__ int argmax_of(const float* x, int columns) {
    int best = 0;
    float largest = x[0];
    for (int c = 1; c < columns; ++c) {
        if (largest != largest || x[c] <= largest) continue;
        best = c;
        largest = x[c];
    }
    return best;
}
