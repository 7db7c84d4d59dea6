// fp8: e4m3 has no infinities and reaches 448, e5m2 has them and reaches 57344. Both are for storage: no arithmetic.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "host_cuda/vector_types.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
struct __half_raw {
    unsigned short x;
};

namespace host_cuda {
using E4M3 = Format<4, 3, false>;
using E5M2 = Format<5, 2>;
}  // namespace host_cuda

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturation,
                                                 __nv_fp8_interpretation_t kind) {
    const bool saturate = saturation == __NV_SATFINITE;
    const unsigned code =
        kind == __NV_E4M3 ? host_cuda::E4M3::encode(x, saturate) : host_cuda::E5M2::encode(x, saturate);
    return static_cast<__nv_fp8_storage_t>(code);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(x, saturation, kind);
}
// The first of several lies in the lowest byte.
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturation,
                                                     __nv_fp8_interpretation_t kind) {
    const unsigned low = __nv_cvt_float_to_fp8(x.x, saturation, kind),
                   high = __nv_cvt_float_to_fp8(x.y, saturation, kind);
    return static_cast<__nv_fp8x2_storage_t>(low | high << 8);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__half(kind == __NV_E4M3 ? host_cuda::E4M3::decode(x) : host_cuda::E5M2::decode(x)).bits};
}

namespace host_cuda {

template <class F>
struct Fp8 {
    __nv_fp8_storage_t __x;

    Fp8() = default;
    explicit Fp8(float value) : __x(static_cast<__nv_fp8_storage_t>(F::encode(value, true))) {}
    explicit Fp8(__half value) : Fp8(static_cast<float>(value)) {}
    explicit Fp8(__nv_bfloat16 value) : Fp8(static_cast<float>(value)) {}
    explicit operator float() const { return F::decode(__x); }
    explicit operator __half() const { return F::decode(__x); }
};

template <class F>
struct Fp8x2 {
    __nv_fp8x2_storage_t __x;

    Fp8x2() = default;
    explicit Fp8x2(float2 v)
        : __x(static_cast<__nv_fp8x2_storage_t>(F::encode(v.x, true) | F::encode(v.y, true) << 8)) {}
    explicit operator float2() const { return {F::decode(__x & 0xFFu), F::decode(__x >> 8)}; }
};

template <class F>
struct Fp8x4 {
    __nv_fp8x4_storage_t __x;

    Fp8x4() = default;
    explicit Fp8x4(float4 v)
        : __x(F::encode(v.x, true) | F::encode(v.y, true) << 8 | F::encode(v.z, true) << 16 |
              F::encode(v.w, true) << 24) {}
    explicit operator float4() const {
        return {F::decode(__x & 0xFFu), F::decode(__x >> 8 & 0xFFu), F::decode(__x >> 16 & 0xFFu),
                F::decode(__x >> 24)};
    }
};

}  // namespace host_cuda

using __nv_fp8_e4m3 = host_cuda::Fp8<host_cuda::E4M3>;
using __nv_fp8_e5m2 = host_cuda::Fp8<host_cuda::E5M2>;
using __nv_fp8x2_e4m3 = host_cuda::Fp8x2<host_cuda::E4M3>;
using __nv_fp8x2_e5m2 = host_cuda::Fp8x2<host_cuda::E5M2>;
using __nv_fp8x4_e4m3 = host_cuda::Fp8x4<host_cuda::E4M3>;
using __nv_fp8x4_e5m2 = host_cuda::Fp8x4<host_cuda::E5M2>;
