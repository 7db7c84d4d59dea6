// The maths functions in use, beside those that <cmath> puts into the global namespace (expf, fmaf, sqrtf, ...). The
// device's fast variants are a few units in the last place away from these: tests compare with a tolerance.
#pragma once

#include <cmath>
#include <cstring>
#include <math.h>

#include "host_cuda/vector_types.h"

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN becomes 0
inline float fdividef(float x, float y) { return x / y; }

// min and max take two operands of one type, as on the device; a NaN loses against a number.
#define HOST_CUDA_EXTREMES(T)                        \
    inline T min(T a, T b) { return b < a ? b : a; } \
    inline T max(T a, T b) { return a < b ? b : a; }
HOST_CUDA_EXTREMES(int)
HOST_CUDA_EXTREMES(unsigned)
HOST_CUDA_EXTREMES(long long)
HOST_CUDA_EXTREMES(unsigned long long)
#undef HOST_CUDA_EXTREMES
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

namespace host_cuda {
template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
// A number that is whole already, as an integer type: NaN gives 0 and what does not fit the nearest that does.
template <class T>
T whole(double x, double lowest, double highest) {
    if (x != x) return 0;
    return static_cast<T>(x < lowest ? lowest : x > highest ? highest : x);
}
}  // namespace host_cuda

inline int __float_as_int(float x) { return host_cuda::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return host_cuda::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return host_cuda::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return host_cuda::bits_as<float>(x); }
inline int __float2int_rn(float x) { return host_cuda::whole<int>(rintf(x), -2147483648.0, 2147483647.0); }
inline int __float2int_rz(float x) { return host_cuda::whole<int>(truncf(x), -2147483648.0, 2147483647.0); }
inline int __float2int_rd(float x) { return host_cuda::whole<int>(floorf(x), -2147483648.0, 2147483647.0); }
inline int __float2int_ru(float x) { return host_cuda::whole<int>(ceilf(x), -2147483648.0, 2147483647.0); }
inline unsigned __float2uint_rn(float x) { return host_cuda::whole<unsigned>(rintf(x), 0.0, 4294967295.0); }
inline int __double2int_rn(double x) { return host_cuda::whole<int>(rint(x), -2147483648.0, 2147483647.0); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
// Picks four of the eight bytes of y:x; unlike PTX's prmt, it does not look at bit 3 of a selector.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned picked = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned place = selector >> (4 * i) & 7u;
        picked |= static_cast<unsigned>(bytes >> (8 * place) & 0xFFu) << (8 * i);
    }
    return picked;
}
// The larger of each half.
inline unsigned __vmaxu2(unsigned x, unsigned y) {
    const unsigned high = x >> 16 > y >> 16 ? x : y, low = (x & 0xFFFFu) > (y & 0xFFFFu) ? x : y;
    return (high & 0xFFFF0000u) | (low & 0xFFFFu);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31u));
}

// Loads with a cache hint are loads.
template <class T>
T __ldg(const T* address) {
    return *address;
}
template <class T>
T __ldcs(const T* address) {
    return *address;
}
template <class T>
T __ldcg(const T* address) {
    return *address;
}
template <class T>
void __stcs(T* address, T value) {
    *address = value;
}
template <class T>
void __stcg(T* address, T value) {
    *address = value;
}
