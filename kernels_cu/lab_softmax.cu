// SoftMax over each row by one of three methods: y[r, c] = exp(x[r, c] - m_r) / sum_c exp(x[r, c] - m_r).
//
//   x  float32 [rows, columns]
//   y  float32 [rows, columns]   written whole
//
// METHOD 0, naive: m is 0, so that exp overflows from about 88.7 on; x is read twice. METHOD 1, safe: m is the largest
// value, found before; x is read three times. METHOD 2, online: m is the largest value so far, and when it grows the
// sum is scaled; x is read twice. LANES threads take a row: a power of two, 32 at most or all THREADS.
#include "common.cuh"

#if !defined(METHOD) || !defined(LANES) || !defined(THREADS)
#error "METHOD, LANES or THREADS not defined"
#endif

constexpr float LOWEST = -3.402823466e+38f;  // not minus infinity, from which nothing can be subtracted
constexpr unsigned ALL = 0xFFFFFFFFu;

static_assert(LANES <= 32 || LANES == THREADS, "a row belongs to lanes of a warp, or to the whole block");

struct Sum {
    float largest, total;  // the total of exp(x - largest)
};

__device__ __forceinline__ Sum add(Sum sum, float value) {
#if METHOD == 2
    if (value > sum.largest) return {value, sum.total * expf(sum.largest - value) + 1.0f};
#endif
    return {sum.largest, sum.total + expf(value - sum.largest)};
}

__device__ __forceinline__ Sum joined(Sum a, Sum b) {
    const float largest = fmaxf(a.largest, b.largest);
#if METHOD == 2
    return {largest, a.total * expf(a.largest - largest) + b.total * expf(b.largest - largest)};
#else
    return {largest, a.total + b.total};
#endif
}

// What the threads of a row have together.
__device__ __forceinline__ Sum of_row(Sum mine) {
    constexpr int WIDTH = LANES < 32 ? LANES : 32;
#pragma unroll
    for (int bits = WIDTH / 2; bits > 0; bits /= 2) {
        mine = joined(mine, {__shfl_xor_sync(ALL, mine.largest, bits), __shfl_xor_sync(ALL, mine.total, bits)});
    }
#if LANES > 32
    __shared__ Sum parts[LANES / 32];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = parts[0];
    for (int i = 1; i < LANES / 32; ++i) mine = joined(mine, parts[i]);
    __syncthreads();  // before the next sum is written
#endif
    return mine;
}

extern "C" __global__ void __launch_bounds__(THREADS)
lab_softmax(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns) {
    const long long row = global_thread() / LANES;
    const int lane = threadIdx.x % LANES;
    const int length = row < rows ? columns : 0;  // all lanes of a warp must come to its shuffles
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    Sum sum = {METHOD == 0 ? 0.0f : LOWEST, 0.0f};
#if METHOD == 1
    for (int c = lane; c < length; c += LANES) sum.largest = fmaxf(sum.largest, from[c]);
    sum = of_row(sum);
#endif
    for (int c = lane; c < length; c += LANES) sum = add(sum, from[c]);
    sum = of_row(sum);
    const float scale = 1.0f / sum.total;
    for (int c = lane; c < length; c += LANES) to[c] = expf(from[c] - sum.largest) * scale;
}
