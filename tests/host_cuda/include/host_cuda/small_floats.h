// Floating point formats smaller than float, by their widths: rounded to nearest, ties to even, as the device does.
#pragma once

#include <cmath>
#include <cstdint>

#include "host_cuda/math.h"

namespace host_cuda {

// With infinities, the largest exponent stands for them and for NaN; without, only the largest code is NaN.
template <int exponent_bits, int mantissa_bits, bool infinities = true>
struct Format {
    static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    static constexpr unsigned sign = 1u << (exponent_bits + mantissa_bits);
    static constexpr unsigned infinity = infinities ? sign - (1u << mantissa_bits) : sign - 1;
    static constexpr unsigned largest = infinity - 1;
    static constexpr unsigned nan = sign - 1;

    // Exact for every double that is finite; what is too large becomes an infinity (or NaN), or `largest`.
    static unsigned encode(double value, bool saturate = false) {
        if (value != value) return nan;
        const unsigned minus = std::signbit(value) ? sign : 0;
        if (value == 0) return minus;
        if (std::isinf(value)) return minus | (saturate ? largest : infinity);
        int exponent;
        std::frexp(value, &exponent);  // value = fraction * 2^exponent, 1/2 <= fraction < 1
        // Counting in steps of this exponent's last place, a carry runs into the exponent by itself.
        const int above_least = exponent > 1 - bias ? exponent - 1 - (1 - bias) : 0;
        const double steps = std::nearbyint(std::ldexp(std::fabs(value), mantissa_bits - (1 - bias) - above_least));
        if (above_least >= 1 << exponent_bits) return minus | (saturate ? largest : infinity);
        const unsigned code = (static_cast<unsigned>(above_least) << mantissa_bits) + static_cast<unsigned>(steps);
        if (code > largest) return minus | (saturate ? largest : infinity);
        return minus | code;
    }

    static float decode(unsigned bits) {
        const unsigned code = bits & (sign - 1);
        float value;
        if (code > largest) {
            value = infinities && code == infinity ? INFINITY : NAN;
        } else {
            // The fields in the places of a float's, whose exponent counts from another bias.
            value = std::ldexp(__uint_as_float(code << (23 - mantissa_bits)), 127 - bias);
        }
        return bits & sign ? -value : value;
    }
};

// a * b + c rounded once: the product of two small floats is exact in double, and the sum is rounded to odd, after
// which rounding it again to a small float gives what one rounding would have.
inline double fused(double a, double b, double c) {
    const double product = a * b, sum = product + c;
    if (!std::isfinite(sum)) return sum;
    const double back = sum - product;
    const double lost = (product - (sum - back)) + (c - back);
    const bool odd = bits_as<std::uint64_t>(sum) & 1u;
    if (lost == 0 || odd) return sum;
    return std::nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
}

// A 16-bit float as a type. Every operation is rounded to it.
template <class F>
struct SmallFloat {
    std::uint16_t bits;

    SmallFloat() = default;
    SmallFloat(float value) : bits(static_cast<std::uint16_t>(F::encode(value))) {}
    SmallFloat(double value) : bits(static_cast<std::uint16_t>(F::encode(value))) {}
    SmallFloat(int value) : SmallFloat(static_cast<double>(value)) {}
    static SmallFloat of(unsigned bits) {
        SmallFloat value;
        value.bits = static_cast<std::uint16_t>(bits);
        return value;
    }
    operator float() const { return F::decode(bits); }
    double wide() const { return F::decode(bits); }

    friend SmallFloat operator+(SmallFloat a, SmallFloat b) { return a.wide() + b.wide(); }
    friend SmallFloat operator-(SmallFloat a, SmallFloat b) { return a.wide() - b.wide(); }
    friend SmallFloat operator*(SmallFloat a, SmallFloat b) { return a.wide() * b.wide(); }
    friend SmallFloat operator/(SmallFloat a, SmallFloat b) { return a.wide() / b.wide(); }
    friend SmallFloat operator-(SmallFloat a) { return of(a.bits ^ F::sign); }
    friend bool operator==(SmallFloat a, SmallFloat b) { return a.wide() == b.wide(); }
    friend bool operator!=(SmallFloat a, SmallFloat b) { return a.wide() != b.wide(); }
    friend bool operator<(SmallFloat a, SmallFloat b) { return a.wide() < b.wide(); }
    friend bool operator>(SmallFloat a, SmallFloat b) { return a.wide() > b.wide(); }
    friend bool operator<=(SmallFloat a, SmallFloat b) { return a.wide() <= b.wide(); }
    friend bool operator>=(SmallFloat a, SmallFloat b) { return a.wide() >= b.wide(); }
    SmallFloat& operator+=(SmallFloat other) { return *this = *this + other; }
    SmallFloat& operator-=(SmallFloat other) { return *this = *this - other; }
    SmallFloat& operator*=(SmallFloat other) { return *this = *this * other; }
    SmallFloat& operator/=(SmallFloat other) { return *this = *this / other; }
};

// Two of them in one register.
template <class F>
struct alignas(4) SmallPair {
    SmallFloat<F> x, y;

    SmallPair() = default;
    SmallPair(SmallFloat<F> x, SmallFloat<F> y) : x(x), y(y) {}
    friend SmallPair operator+(SmallPair a, SmallPair b) { return {a.x + b.x, a.y + b.y}; }
    friend SmallPair operator-(SmallPair a, SmallPair b) { return {a.x - b.x, a.y - b.y}; }
    friend SmallPair operator*(SmallPair a, SmallPair b) { return {a.x * b.x, a.y * b.y}; }
    SmallPair& operator+=(SmallPair other) { return *this = *this + other; }
    SmallPair& operator*=(SmallPair other) { return *this = *this * other; }
};

}  // namespace host_cuda

// The functions that half and bfloat16 share by name.
#define HOST_CUDA_SMALL(name, parameters, result) \
    template <class F>                            \
    host_cuda::SmallFloat<F> name parameters {    \
        return result;                            \
    }
#define S host_cuda::SmallFloat<F>
HOST_CUDA_SMALL(__hadd, (S a, S b), a + b)
HOST_CUDA_SMALL(__hsub, (S a, S b), a - b)
HOST_CUDA_SMALL(__hmul, (S a, S b), a * b)
HOST_CUDA_SMALL(__hdiv, (S a, S b), a / b)
HOST_CUDA_SMALL(__hfma, (S a, S b, S c), host_cuda::fused(a.wide(), b.wide(), c.wide()))
HOST_CUDA_SMALL(__hneg, (S a), -a)
HOST_CUDA_SMALL(__habs, (S a), S::of(a.bits & (F::sign - 1)))
// A NaN loses against a number; of two zeros the positive one is larger.
HOST_CUDA_SMALL(__hmax, (S a, S b),
                a == a && (b != b || a > b || (a == b && !(a.bits & F::sign))) ? S(a.wide()) : S(b.wide()))
HOST_CUDA_SMALL(__hmin, (S a, S b),
                a == a && (b != b || a < b || (a == b && (a.bits & F::sign))) ? S(a.wide()) : S(b.wide()))
HOST_CUDA_SMALL(__hmax_nan, (S a, S b), a != a || b != b ? S::of(F::nan) : __hmax(a, b))
HOST_CUDA_SMALL(__hmin_nan, (S a, S b), a != a || b != b ? S::of(F::nan) : __hmin(a, b))
#undef S
#undef HOST_CUDA_SMALL

#define HOST_CUDA_COMPARE(name, expression)                             \
    template <class F>                                                  \
    bool name(host_cuda::SmallFloat<F> a, host_cuda::SmallFloat<F> b) { \
        return expression;                                              \
    }
HOST_CUDA_COMPARE(__heq, a == b)
HOST_CUDA_COMPARE(__hne, a < b || a > b)
HOST_CUDA_COMPARE(__hlt, a < b)
HOST_CUDA_COMPARE(__hle, a <= b)
HOST_CUDA_COMPARE(__hgt, a > b)
HOST_CUDA_COMPARE(__hge, a >= b)
#undef HOST_CUDA_COMPARE
template <class F>
bool __hisnan(host_cuda::SmallFloat<F> a) {
    return a != a;
}

#define HOST_CUDA_BOTH(name, one)                                                        \
    template <class F>                                                                   \
    host_cuda::SmallPair<F> name(host_cuda::SmallPair<F> a, host_cuda::SmallPair<F> b) { \
        return {one(a.x, b.x), one(a.y, b.y)};                                           \
    }
HOST_CUDA_BOTH(__hadd2, __hadd)
HOST_CUDA_BOTH(__hsub2, __hsub)
HOST_CUDA_BOTH(__hmul2, __hmul)
HOST_CUDA_BOTH(__h2div, __hdiv)
HOST_CUDA_BOTH(__hmax2, __hmax)
HOST_CUDA_BOTH(__hmin2, __hmin)
HOST_CUDA_BOTH(__hmax2_nan, __hmax_nan)
#undef HOST_CUDA_BOTH
template <class F>
host_cuda::SmallPair<F> __hfma2(host_cuda::SmallPair<F> a, host_cuda::SmallPair<F> b, host_cuda::SmallPair<F> c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
template <class F>
host_cuda::SmallPair<F> __hneg2(host_cuda::SmallPair<F> a) {
    return {-a.x, -a.y};
}
