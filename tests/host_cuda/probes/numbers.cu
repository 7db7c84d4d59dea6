// One conversion or operation a launch, chosen by `operation`, on each triple of values. A probe of number formats.
//
//   x     float32 [count]         for conversions from float
//   bits  uint32 [3, count]       operands as bits, in the lowest places
//   out   uint32 [count]          the result as bits
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

template <class T>
__device__ unsigned bits_of(T value) {
    static_assert(sizeof(T) == 2, "a 16-bit float");
    return *reinterpret_cast<unsigned short*>(&value);
}

template <class T>
__device__ unsigned arithmetic(int operation, T a, T b, T c) {
    switch (operation) {
        case 0: return bits_of(__hadd(a, b));
        case 1: return bits_of(__hsub(a, b));
        case 2: return bits_of(__hmul(a, b));
        case 3: return bits_of(__hdiv(a, b));
        case 4: return bits_of(__hfma(a, b, c));
        case 5: return bits_of(__hmax(a, b));
        case 6: return bits_of(__hmin(a, b));
        case 7: return __hlt(a, b);
        case 8: return __heq(a, b);
        case 9: return bits_of(__hmax_nan(a, b));
        default: return 0;
    }
}

__device__ float half_of_raw(__half_raw raw) { return __half2float(__ushort_as_half(raw.x)); }

__device__ unsigned result_of(int operation, float x, unsigned first, unsigned second, unsigned third) {
    const unsigned short a = first, b = second, c = third;
    const __nv_fp8_storage_t byte = first;
    switch (operation) {
        case 0: return __half_as_ushort(__float2half_rn(x));
        case 1: return __float_as_uint(__half2float(__ushort_as_half(a)));
        case 2: return __bfloat16_as_ushort(__float2bfloat16_rn(x));
        case 3: return __float_as_uint(__bfloat162float(__ushort_as_bfloat16(a)));
        case 4: return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        case 5: return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
        case 6: return __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3);
        case 7: return __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2);
        case 8: return __float_as_uint(half_of_raw(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
        case 9: return __float_as_uint(half_of_raw(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2)));
        case 10: {
            const float4 four = make_float4(x, -x, 2 * x, 0.5f * x);
            return __nv_fp8x4_e4m3(four).__x;
        }
        default:
            if (operation < 200) {
                return arithmetic(operation - 100, __ushort_as_half(a), __ushort_as_half(b), __ushort_as_half(c));
            }
            return arithmetic(operation - 200, __ushort_as_bfloat16(a), __ushort_as_bfloat16(b),
                              __ushort_as_bfloat16(c));
    }
}

extern "C" __global__ void __launch_bounds__(64)
numbers(const float* __restrict__ x, const unsigned* __restrict__ bits, unsigned* __restrict__ out,
        int count, int operation) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        out[i] = result_of(operation, x[i], bits[i], bits[count + i], bits[2 * count + i]);
    }
}
