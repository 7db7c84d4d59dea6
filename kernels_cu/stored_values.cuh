// Values as a layer left them, INPUT as OUTPUT in tensor_types.cuh, read as floats: VECTOR of them lie in 16 bytes.
#pragma once

#if !defined(INPUT) || !defined(ALIGNED)
#error "INPUT or ALIGNED not defined"
#endif
#define OUTPUT INPUT  // of the layer before
#include "tensor_types.cuh"

constexpr int VECTOR = 16 / sizeof(Y);

#if ALIGNED
// The VECTOR values at x, which lies at a multiple of 16 bytes.
__device__ __forceinline__ void read_part(const Y* x, float (&values)[VECTOR], int) {
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(x));
    const unsigned parts[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if INPUT == OUTPUT_FP32 || INPUT == OUTPUT_TF32
        values[i] = __uint_as_float(parts[i]);
#elif INPUT == OUTPUT_BF16
        values[2 * i] = __uint_as_float(parts[i] << 16);
        values[2 * i + 1] = __uint_as_float(parts[i] & 0xFFFF0000u);
#else
        const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&parts[i]));
        values[2 * i] = both.x;
        values[2 * i + 1] = both.y;
#endif
    }
}
#else
// The values at x, as far as there are `left`; zeros behind.
__device__ __forceinline__ void read_part(const Y* x, float (&values)[VECTOR], int left) {
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) values[i] = i < left ? static_cast<float>(x[i]) : 0.0f;
}
#endif

// The VECTOR values at x, of which `left` are there: all of them with ALIGNED. Split ones are two parts each.
__device__ __forceinline__ void read_values(const Y* x, long long low, float (&values)[VECTOR], int left) {
    read_part(x, values, left);
#if INPUT == OUTPUT_SPLIT
    float more[VECTOR];
    read_part(x + low, more, left);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) values[i] += more[i];
#endif
}
