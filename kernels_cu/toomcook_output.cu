// Toom-Cook, output: the windows of a chunk from their products, and of these the largest, for every filter:
//   features[owners[c], f] = max(0, bias[f] + sum_p matrices[w, t, p] * m[p, c, f] over t = 0 .. live - widths[w]),
// where w is the width that filter f belongs to and `live` the tokens of chunk c inside its sentence.
//
//   m         float32 [PRODUCTS, chunks, pitch]   columns from widths * filters on are not read
//   bias      float32 [widths * filters]
//   matrices  float32 [widths, TOKENS, PRODUCTS]  rows from TOKENS - width + 1 on are not read
//   widths    int32   [widths]
//   starts    int32   [chunks]                    first token of each chunk
//   owners    int32   [chunks]                    its sentence
//   offsets   int32   [sentences + 1]             first token of each sentence
//   features  float32 [sentences, widths * filters]   zeros before
//
// A NaN among a chunk's products makes a NaN of the feature. Bound by memory: a thread holds the products of VECTOR
// filters in registers. Grid: chunks, tiles of filters, widths.
#include "largest.cuh"

#if !defined(TOKENS) || !defined(PRODUCTS) || !defined(VECTOR) || !defined(THREADS)
#error "TOKENS, PRODUCTS, VECTOR or THREADS not defined"
#endif

constexpr int PADDED = (PRODUCTS + 3) / 4 * 4;  // a row of a matrix is read four at a time

struct alignas(4 * VECTOR) Piece {
    float values[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS)
toomcook_output(const float* __restrict__ m, const float* __restrict__ bias, const float* __restrict__ matrices,
                const int* __restrict__ widths, const int* __restrict__ starts, const int* __restrict__ owners,
                const int* __restrict__ offsets, float* __restrict__ features,
                int chunks, int filters, int pitch) {
    alignas(16) __shared__ float rows[TOKENS][PADDED];
    const float* matrix = matrices + blockIdx.z * (TOKENS * PRODUCTS);
    for (int i = threadIdx.x; i < TOKENS * PADDED; i += THREADS) {
        const int p = i % PADDED;
        rows[i / PADDED][p] = p < PRODUCTS ? matrix[i / PADDED * PRODUCTS + p] : 0.0f;
    }
    __syncthreads();
    const int filter = (blockIdx.y * THREADS + threadIdx.x) * VECTOR;
    if (filter >= filters) return;
    const int column = blockIdx.z * filters + filter;

    float products[PADDED][VECTOR] = {};
    const float* from = m + static_cast<long long>(blockIdx.x) * pitch + column;
    const long long next = static_cast<long long>(chunks) * pitch;
#pragma unroll
    for (int p = 0; p < PRODUCTS; ++p) {
        const Piece some = *reinterpret_cast<const Piece*>(from + p * next);
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) products[p][i] = some.values[i];
    }

    const int owner = owners[blockIdx.x];
    const int live = min(offsets[owner + 1] - starts[blockIdx.x], TOKENS);
    const int windows = live - widths[blockIdx.z] + 1;
    const Piece after = *reinterpret_cast<const Piece*>(bias + column);
    int largest[VECTOR] = {};
    for (int t = 0; t < windows; ++t) {
        float sums[VECTOR] = {};
#pragma unroll
        for (int p = 0; p < PRODUCTS; p += 4) {
            const float4 four = *reinterpret_cast<const float4*>(&rows[t][p]);
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                sums[i] = fmaf(four.x, products[p][i], sums[i]);
                sums[i] = fmaf(four.y, products[p + 1][i], sums[i]);
                sums[i] = fmaf(four.z, products[p + 2][i], sums[i]);
                sums[i] = fmaf(four.w, products[p + 3][i], sums[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) largest[i] = max(largest[i], relu_bits(sums[i] + after.values[i]));
    }
    const long long row = static_cast<long long>(owner) * gridDim.z * filters;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) raise(features + row + column + i, largest[i]);
}
