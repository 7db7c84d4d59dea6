// Folded scale: how the whole numbers of a table of TABLE_FIXED are to be read, from the values that they stand for.
//
//   product  float32 [width, words, filters]   a word's value at each tap
//   bias     float32 [filters]
//   lowest   float32 [width, filters]          over all words, written whole
//   scale    float32 [filters]                 of all taps: a window's numbers add up to MOST at most, written whole
//   after    float32 [filters]                 bias and all that is lowest, written whole
//
// A NaN or an infinity among the values of a filter makes a NaN of its scale. A block takes COLUMNS filters, ROWS words
// at a time.
#include "folded_types.cuh"

#if !defined(COLUMNS) || !defined(ROWS)
#error "COLUMNS or ROWS not defined"
#endif

extern "C" __global__ void __launch_bounds__(COLUMNS* ROWS)
folded_scale(const float* __restrict__ product, const float* __restrict__ bias, float* __restrict__ lowest,
             float* __restrict__ scale, float* __restrict__ after, int words, int width, int filters) {
    __shared__ float least[ROWS][COLUMNS], most[ROWS][COLUMNS], doubts[ROWS][COLUMNS];
    const int x = threadIdx.x, y = threadIdx.y;
    const int filter = blockIdx.x * COLUMNS + x;
    const bool there = filter < filters;
    float range = 0.0f;
    float sum = there ? bias[filter] : 0.0f;
    for (int tap = 0; tap < width; ++tap) {
        float low = 3.402823466e38f, high = -low;
        float doubt = 0.0f;  // or NaN, once a value was not finite
        for (int word = y; there && word < words; word += ROWS) {
            const float value = product[(static_cast<long long>(tap) * words + word) * filters + filter];
            low = fminf(low, value);
            high = fmaxf(high, value);
            doubt += value - value;
        }
        least[y][x] = low;
        most[y][x] = high;
        doubts[y][x] = doubt;
        __syncthreads();
        for (int row = 0; y == 0 && row < ROWS; ++row) {
            low = fminf(low, least[row][x]);
            high = fmaxf(high, most[row][x]);
            doubt += doubts[row][x];
        }
        __syncthreads();
        range += high - low + doubt;
        sum += low;
        if (there && y == 0) lowest[tap * filters + filter] = low;
    }
    if (there && y == 0) {
        scale[filter] = range / (MOST - width);  // each of `width` numbers may be rounded up
        after[filter] = sum;
    }
}
