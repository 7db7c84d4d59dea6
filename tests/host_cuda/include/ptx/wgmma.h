// wgmma: products of a warpgroup, straight from tiles in shared memory. Each thread computes what it holds of d.
#pragma once

#include "ptx/mma.h"

namespace ptx {
enum Swizzle : unsigned { swizzle_none = 0, swizzle_128 = 1, swizzle_64 = 2, swizzle_32 = 3 };
}

namespace host_cuda {

// A product takes 32 bytes of each row of a described tile. Where the first or the second 16 of them lie.
inline const unsigned char* in_tile(unsigned long long descriptor, unsigned row, unsigned piece) {
    const auto field = [=](int shift) { return static_cast<std::uint32_t>(descriptor >> shift & 0x3FFFu) << 4; };
    const std::uint32_t start = field(0), leading = field(16), stride = field(32);
    const auto swizzle = static_cast<unsigned>(descriptor >> 62);
    if (swizzle == ptx::swizzle_none) {
        return shared_pointer(start + row / 8 * stride + piece * leading + row % 8 * 16);
    }
    // Bits 4 and up of the address, as many as pieces of 16 bytes need, change with bits 7 and up.
    const std::uint32_t row_bytes = 256u >> swizzle;
    const std::uint32_t plain = start + row / 8 * stride + row % 8 * row_bytes + piece * 16;
    return shared_pointer(plain ^ (plain >> 3 & (row_bytes - 1) & ~15u));
}

// Operands as they lie in memory.
template <class F>
struct Packed {
    using Word = std::uint16_t;
    static double decode(Word bits) { return F::decode(bits); }
};
using PackedHalf = Packed<HalfFormat>;
using PackedBfloat16 = Packed<Bfloat16Format>;
struct PackedTf32 {
    using Word = std::uint32_t;
    static double decode(Word bits) { return tf32(bits); }
};

template <class P>
struct Row {
    static constexpr unsigned depth = 32 / sizeof(typename P::Word);
    double at[depth];

    Row(unsigned long long descriptor, unsigned row) {
        typename P::Word words[depth];
        for (unsigned piece = 0; piece < 2; ++piece) {
            std::memcpy(words + piece * depth / 2, in_tile(descriptor, row, piece), 16);
        }
        for (unsigned k = 0; k < depth; ++k) at[k] = P::decode(words[k]);
    }
};

template <class P, int n>
struct Product {
    float* d;
    unsigned long long a, b;
    int add;
    unsigned row, column;  // of the thread's first value

    static void carry_out(const void* state) {
        const Product p = *static_cast<const Product*>(state);
        const Row<P> a[2] = {{p.a, p.row}, {p.a, p.row + 8}};
        for (unsigned pair = 0; pair < n / 4; ++pair) {
            const Row<P> b(p.b, pair / 2 * 8 + p.column + pair % 2);
            for (unsigned half = 0; half < 2; ++half) {
                float& d = p.d[pair / 2 * 4 + half * 2 + pair % 2];
                double sum = p.add ? d : 0.0f;
                for (unsigned k = 0; k < Row<P>::depth; ++k) sum += a[half].at[k] * b.at[k];
                d = static_cast<float>(sum);
            }
        }
    }
};

inline void check_warpgroup(const char* what, Site site) {
    if (blockDim.x * blockDim.y * blockDim.z % 128) fail(site, "%s in a block that is not whole warpgroups", what);
    exchange(what, all_lanes, nullptr, nullptr, 0, site);
}

// The thread's number in its block.
inline unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

template <class P, int n>
void wgmma(const char* what, float* d, unsigned long long a, unsigned long long b, int add, Site site) {
    check_warpgroup(what, site);
    const unsigned warp = thread_number() / 32 % 4;
    const Product<P, n> product{d, a, b, add, warp * 16 + lane() / 4, lane() % 4 * 2};
    defer(Queue::products, Product<P, n>::carry_out, &product, sizeof product);
}

}  // namespace host_cuda

#define HOST_CUDA_WGMMA(n, registers, depth, type, packed)                                                           \
    inline void wgmma_m64n##n##k##depth##_##type(float (&d)[registers], unsigned long long a, unsigned long long b, \
                                                 int add, host_cuda::Site site = host_cuda::Site::here()) {         \
        host_cuda::wgmma<host_cuda::packed, n>("wgmma.m64n" #n "k" #depth "." #type, d, a, b, add, site);           \
    }
#define HOST_CUDA_WGMMAS(n, registers)                      \
    HOST_CUDA_WGMMA(n, registers, 16, f16, PackedHalf)      \
    HOST_CUDA_WGMMA(n, registers, 16, bf16, PackedBfloat16) \
    HOST_CUDA_WGMMA(n, registers, 8, tf32, PackedTf32)

namespace ptx {

HOST_CUDA_WGMMAS(64, 32)
HOST_CUDA_WGMMAS(128, 64)
HOST_CUDA_WGMMAS(192, 96)
HOST_CUDA_WGMMAS(256, 128)
#undef HOST_CUDA_WGMMAS
#undef HOST_CUDA_WGMMA

inline void wgmma_fence(host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::check_warpgroup("wgmma.fence", site);
}
inline void wgmma_commit_group() { host_cuda::commit_group(host_cuda::Queue::products); }
template <int open>
void wgmma_wait_group(host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::wait_group(host_cuda::Queue::products, open);
    host_cuda::check_warpgroup("wgmma.wait_group", site);  // of all lanes: none goes on before the others' have ended
}

inline unsigned long long wgmma_descriptor(const void* tile, unsigned leading, unsigned stride, Swizzle swizzle,
                                           host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::check_aligned("wgmma descriptor", tile, 16, site);
    const unsigned long long start = host_cuda::shared_address(tile, site) >> 4;
    if (start > 0x3FFFu) host_cuda::fail(site, "wgmma descriptor: the tile lies beyond what 18 bits address");
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
