// Skinny: v[m, n] = bias[n] + sum_k a[m, k] * weight[n, k], for a handful of columns: the gate, the labels.
//
//   a       INPUT   [rows, pitch]      the first `depth` of each row are read; see stored_values.cuh
//                   with PACKED as packed_place.cuh has it; pitch is then the rows rounded up to 8
//   weight  float32 [OUTPUTS, depth]
//   bias    float32 [OUTPUTS]
//   y       float32 [rows, OUTPUTS]    written whole: v; with EPILOGUE_SOFTMAX softmax(v)
//   scores  float32 [rows, OUTPUTS]    written whole with EPILOGUE_SCORES only: softmax(v)
//   label   int32   [rows]             written whole with EPILOGUE_SCORES only: the first column of the largest v
//
// `a` is read once. A team of WARPS warps takes ROWS rows, so that each weight it loads, from a cache, serves them all.
// A thread sums every so many-th vector of k, then the threads' sums meet: the order depends on depth and INPUT alone.
// ALIGNED says that `pitch` and `depth` are multiples of VECTOR; `a` and `weight` begin at multiples of 16 bytes.
#include "row.cuh"
#include "stored_values.cuh"
#include "packed_place.cuh"

#define EPILOGUE_STORE 0
#define EPILOGUE_SOFTMAX 1
#define EPILOGUE_SCORES 2

#if !defined(THREADS) || !defined(WARPS) || !defined(ROWS)
#error "THREADS, WARPS or ROWS not defined"
#endif
#if !defined(OUTPUTS) || !defined(EPILOGUE) || !defined(PACKED)
#error "OUTPUTS, EPILOGUE or PACKED not defined"
#endif
static_assert(!PACKED || ALIGNED, "whole pieces");

constexpr int TEAM = WARPS * 32;
constexpr int TEAMS = THREADS / TEAM;

constexpr int USED = ROWS * OUTPUTS;
constexpr int SUMS = USED > 8 ? 16 : USED > 4 ? 8 : 4;  // of a team, a power of two
static_assert(USED <= 16, "a thread has registers for 16 sums");

// VECTOR weights; `left` as in read_values.
__device__ __forceinline__ void read_weights(const float* weight, float (&values)[VECTOR], int left) {
#pragma unroll
    for (int i = 0; i < VECTOR; i += 4) {
#if ALIGNED
        const float4 four = __ldg(reinterpret_cast<const float4*>(weight + i));
        values[i] = four.x;
        values[i + 1] = four.y;
        values[i + 2] = four.z;
        values[i + 3] = four.w;
#else
#pragma unroll
        for (int j = i; j < i + 4; ++j) values[j] = j < left ? weight[j] : 0.0f;
#endif
    }
}

// Each sum over the lanes of a warp: lane i ends with number i / (32 / SUMS). Lanes half as far apart each time keep
// one half of what they still have and give the other away.
__device__ __forceinline__ float spread_sums(float (&sums)[SUMS]) {
    int apart = 16;
#pragma unroll
    for (int half = SUMS / 2; half > 0; half /= 2) {
        const bool upper = threadIdx.x & apart;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const float given = upper ? sums[i] : sums[i + half];
            const float kept = upper ? sums[i + half] : sums[i];
            sums[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, apart);
        }
        apart /= 2;
    }
#pragma unroll
    for (; apart > 0; apart /= 2) sums[0] += __shfl_xor_sync(0xFFFFFFFFu, sums[0], apart);
    return sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
skinny(const unsigned char* __restrict__ a, const float* __restrict__ weight, const float* __restrict__ bias,
       float* y, float* scores, int* label, long long rows, int depth, int pitch, long long low) {
    __shared__ float shared[TEAMS][WARPS][SUMS];
    const int team = threadIdx.x / TEAM;
    const int member = threadIdx.x % TEAM;
    const long long first = (static_cast<long long>(blockIdx.x) * TEAMS + team) * ROWS;
    const Y* const values = reinterpret_cast<const Y*>(a);
    long long row_of[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) row_of[r] = first + r < rows ? first + r : rows - 1;
    float sums[SUMS] = {};
    for (int k = member * VECTOR; k < depth; k += TEAM * VECTOR) {
        float x[ROWS][VECTOR];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const long long place = PACKED ? packed_place(row_of[r], k, pitch) : row_of[r] * pitch + k;
            read_values(values + place, low, x[r], depth - k);
        }
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            float w[VECTOR];
            read_weights(weight + static_cast<long long>(n) * depth + k, w, depth - k);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                for (int i = 0; i < VECTOR; ++i) {
                    sums[r * OUTPUTS + n] = fmaf(x[r][i], w[i], sums[r * OUTPUTS + n]);
                }
            }
        }
    }
    constexpr int LANES = 32 / SUMS;  // that end with the same sum
    const float sum = spread_sums(sums);
    if (threadIdx.x % LANES == 0) shared[team][member / 32][threadIdx.x % 32 / LANES] = sum;
    __syncthreads();

    const long long row = first + member;
    if (member >= ROWS || row >= rows) return;
    float v[OUTPUTS];
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
        v[n] = bias[n];
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) v[n] += shared[team][warp][member * OUTPUTS + n];
    }
#if EPILOGUE == EPILOGUE_SCORES
    label[row] = argmax_of(v, OUTPUTS);
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) y[row * OUTPUTS + n] = v[n];
    float* const to = scores + row * OUTPUTS;
#else
    float* const to = y + row * OUTPUTS;
#endif
#if EPILOGUE != EPILOGUE_STORE
    softmax_of(v, v, OUTPUTS);
#endif
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) to[n] = v[n];
}
