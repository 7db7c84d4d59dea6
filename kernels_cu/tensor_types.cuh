// Tensor cores: the types that their operands are stored in, and how floats become them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define OUTPUT_FP32 0
#define OUTPUT_FP16 1
#define OUTPUT_BF16 2
#define OUTPUT_TF32 3   // a float whose lower 13 bits are zero
#define OUTPUT_SPLIT 4  // two halves whose sum it is: the high one, and the low one `low` elements after it

#ifndef OUTPUT
#error "OUTPUT not defined"
#endif

#if OUTPUT == OUTPUT_FP16 || OUTPUT == OUTPUT_SPLIT
using Y = __half;
using Pair = __half2;
#elif OUTPUT == OUTPUT_BF16
using Y = __nv_bfloat16;
using Pair = __nv_bfloat162;
#else
using Y = float;
using Pair = float2;
#endif

// To nearest, ties to even, which has an instruction on sm_90 only. Adding to the bits carries into the exponent.
__device__ __forceinline__ float round_tf32(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return __uint_as_float(0x7FFFFFFFu);
    return __uint_as_float((bits + 0xFFFu + (bits >> 13 & 1u)) & 0xFFFFE000u);
}

// y[0] = value, in the type of OUTPUT.
__device__ __forceinline__ void store(Y* y, long long low, float value) {
#if OUTPUT == OUTPUT_FP32
    y[0] = value;
#elif OUTPUT == OUTPUT_TF32
    y[0] = round_tf32(value);
#elif OUTPUT == OUTPUT_BF16
    y[0] = __float2bfloat16(value);
#else
    const __half high = __float2half(value);
    y[0] = high;
#if OUTPUT == OUTPUT_SPLIT
    y[low] = __float2half(value - __half2float(high));
#endif
#endif
}

#if OUTPUT == OUTPUT_FP16 || OUTPUT == OUTPUT_BF16 || OUTPUT == OUTPUT_SPLIT
constexpr int WORDS = OUTPUT == OUTPUT_SPLIT ? 2 : 1;

// Two of them as they lie in memory; with OUTPUT_SPLIT their high halves, then their low ones.
__device__ __forceinline__ void words_of(unsigned (&words)[WORDS], float first, float second) {
#if OUTPUT == OUTPUT_BF16
    const Pair high = __floats2bfloat162_rn(first, second);
#else
    const Pair high = __floats2half2_rn(first, second);
#endif
    words[0] = *reinterpret_cast<const unsigned*>(&high);
#if OUTPUT == OUTPUT_SPLIT
    const Pair low = __floats2half2_rn(first - __low2float(high), second - __high2float(high));
    words[1] = *reinterpret_cast<const unsigned*>(&low);
#endif
}
#endif

// Two of them at once: y lies at a multiple of two, and `low` is one.
__device__ __forceinline__ void store_pair(Y* y, long long low, float first, float second) {
#if OUTPUT == OUTPUT_FP32
    *reinterpret_cast<Pair*>(y) = make_float2(first, second);
#elif OUTPUT == OUTPUT_TF32
    *reinterpret_cast<Pair*>(y) = make_float2(round_tf32(first), round_tf32(second));
#else
    unsigned words[WORDS];
    words_of(words, first, second);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) *reinterpret_cast<unsigned*>(y + i * low) = words[i];
#endif
}
