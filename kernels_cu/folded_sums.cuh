// Folded tables: sums of rows, VECTOR filters at a time, and the largest of them. A NaN is the largest of all.
#pragma once

#include "folded_types.cuh"

#if TYPE == TABLE_FIXED
using Sum = unsigned;  // of two filters
constexpr Sum LOWEST = 0;
#else
using Sum = float;
constexpr Sum LOWEST = -3.402823466e38f;
#endif

constexpr int SUMS = TYPE == TABLE_FP16 ? 8 : 4;

struct Sums {
    Sum of[SUMS];
};

// The VECTOR values at `row`, ready to be added up.
__device__ __forceinline__ Sums values_at(const unsigned char* row) {
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(row));
#if TYPE == TABLE_FIXED
    return {words.x, words.y, words.z, words.w};
#elif TYPE == TABLE_FP32
    return {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)};
#else
    const unsigned pairs[4] = {words.x, words.y, words.z, words.w};
    Sums values;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
        values.of[2 * i] = both.x;
        values.of[2 * i + 1] = both.y;
    }
    return values;
#endif
}

__device__ __forceinline__ void add(Sums& sums, const Sums& more) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums.of[i] += more.of[i];
}

__device__ __forceinline__ Sum larger(Sum a, Sum b) {
#if TYPE == TABLE_FIXED
    return __vmaxu2(a, b);
#else
    return a >= b || a != a ? a : b;
#endif
}

// Of filter i.
__device__ __forceinline__ float value_of(const Sums& sums, int i) {
#if TYPE == TABLE_FIXED
    return static_cast<float>(sums.of[i / 2] >> (i % 2 * 16) & 0xFFFFu);
#else
    return sums.of[i];
#endif
}
