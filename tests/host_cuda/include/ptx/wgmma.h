// wgmma: products of a warpgroup, straight from tiles in shared memory. Each thread computes what it holds of d.
#pragma once

#include "ptx/mma.h"

namespace ptx {
enum Swizzle : unsigned { swizzle_none = 0, swizzle_128 = 1, swizzle_64 = 2, swizzle_32 = 3 };
}

namespace host_cuda {

// Where the 16-bit value at (row, k) of a described tile lies in shared memory.
inline const unsigned char* in_tile(unsigned long long descriptor, unsigned row, unsigned k) {
    const auto field = [=](int shift) { return static_cast<std::uint32_t>(descriptor >> shift & 0x3FFFu) << 4; };
    const std::uint32_t start = field(0), leading = field(16), stride = field(32);
    const auto swizzle = static_cast<unsigned>(descriptor >> 62);
    if (swizzle == ptx::swizzle_none) {
        return shared_pointer(start + row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2);
    }
    // Bits 4 and up of the address, as many as pieces of 16 bytes need, change with bits 7 and up.
    const std::uint32_t row_bytes = 256u >> swizzle;
    const std::uint32_t plain = start + row / 8 * stride + row % 8 * row_bytes + k * 2;
    return shared_pointer(plain ^ (plain >> 3 & (row_bytes - 1) & ~15u));
}

template <class F>
double in_tile_value(unsigned long long descriptor, unsigned row, unsigned k) {
    std::uint16_t bits;
    std::memcpy(&bits, in_tile(descriptor, row, k), sizeof bits);
    return F::decode(bits);
}

template <class F, int n>
struct Product {
    float* d;
    unsigned long long a, b;
    int add;
    unsigned row, column;  // of the thread's first value

    static void carry_out(const void* state) {
        const Product p = *static_cast<const Product*>(state);
        double a[2][16];
        for (unsigned half = 0; half < 2; ++half) {
            for (unsigned k = 0; k < 16; ++k) a[half][k] = in_tile_value<F>(p.a, p.row + 8 * half, k);
        }
        for (unsigned i = 0; i < n / 2; ++i) {
            const unsigned half = i % 4 / 2, column = i / 4 * 8 + p.column + i % 2;
            double sum = p.add ? p.d[i] : 0.0f;
            for (unsigned k = 0; k < 16; ++k) sum += a[half][k] * in_tile_value<F>(p.b, column, k);
            p.d[i] = static_cast<float>(sum);
        }
    }
};

inline void check_warpgroup(const char* what, Site site) {
    if (blockDim.x * blockDim.y * blockDim.z % 128) fail(site, "%s in a block that is not whole warpgroups", what);
    exchange(what, all_lanes, nullptr, nullptr, 0, site);
}

// The thread's number in its block.
inline unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

template <class F, int n>
void wgmma(const char* what, float* d, unsigned long long a, unsigned long long b, int add, Site site) {
    check_warpgroup(what, site);
    const unsigned warp = thread_number() / 32 % 4;
    const Product<F, n> product{d, a, b, add, warp * 16 + lane() / 4, lane() % 4 * 2};
    defer(Queue::products, Product<F, n>::carry_out, &product, sizeof product);
}

}  // namespace host_cuda

#define HOST_CUDA_WGMMA(n, registers, type, format)                                                                   \
    inline void wgmma_m64n##n##k16_##type(float (&d)[registers], unsigned long long a, unsigned long long b, int add, \
                                          host_cuda::Site site = host_cuda::Site::here()) {                           \
        host_cuda::wgmma<host_cuda::format, n>("wgmma.m64n" #n "k16." #type, d, a, b, add, site);                     \
    }

namespace ptx {

HOST_CUDA_WGMMA(64, 32, f16, HalfFormat)
HOST_CUDA_WGMMA(64, 32, bf16, Bfloat16Format)
HOST_CUDA_WGMMA(128, 64, f16, HalfFormat)
HOST_CUDA_WGMMA(128, 64, bf16, Bfloat16Format)
HOST_CUDA_WGMMA(256, 128, f16, HalfFormat)
HOST_CUDA_WGMMA(256, 128, bf16, Bfloat16Format)
#undef HOST_CUDA_WGMMA

inline void wgmma_fence(host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::check_warpgroup("wgmma.fence", site);
}
inline void wgmma_commit_group() { host_cuda::commit_group(host_cuda::Queue::products); }
template <int open>
void wgmma_wait_group() {
    host_cuda::wait_group(host_cuda::Queue::products, open);
}

inline unsigned long long wgmma_descriptor(const void* tile, unsigned leading, unsigned stride, Swizzle swizzle,
                                           host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::check_aligned("wgmma descriptor", tile, 16, site);
    const unsigned long long start = host_cuda::shared_address(tile, site) >> 4;
    const unsigned long long offsets =
        (leading & 0x3FFFFu) >> 4 | static_cast<unsigned long long>((stride & 0x3FFFFu) >> 4) << 16;
    return start | offsets << 16 | static_cast<unsigned long long>(swizzle) << 62;
}

template <int registers>
void setmaxnreg_inc(host_cuda::Site site = host_cuda::Site::here()) {
    static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0, "a multiple of 8 from 24 to 256");
    host_cuda::check_warpgroup("setmaxnreg.inc", site);
}
template <int registers>
void setmaxnreg_dec(host_cuda::Site site = host_cuda::Site::here()) {
    static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0, "a multiple of 8 from 24 to 256");
    host_cuda::check_warpgroup("setmaxnreg.dec", site);
}

}  // namespace ptx
