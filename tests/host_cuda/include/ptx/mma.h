// ldmatrix, stmatrix and mma: matrices spread over the lanes of a warp.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "host_cuda/warp.h"
#include "ptx/copies.h"

namespace host_cuda {

// One of the 16-bit values in a register, the lower one first.
template <class F>
double value_in(unsigned reg, int half) {
    return F::decode(reg >> (16 * half) & 0xFFFFu);
}
using HalfFormat = Format<5, 10>;
using Bfloat16Format = Format<8, 7>;

template <int count>
void ldmatrix(const char* what, unsigned (&r)[count], const void* row, bool transposed, Site site) {
    const Met<const unsigned char*> rows(what, all_lanes, static_cast<const unsigned char*>(row), site);
    const unsigned major = lane() / 4, minor = lane() % 4 * 2;
    if (lane() < 8 * count) {
        check_aligned(what, row, 16, site);
        shared_address(row, site);
        check_range(row, 16);
    }
    for (int matrix = 0; matrix < count; ++matrix) {
        unsigned short pair[2];
        for (unsigned i = 0; i < 2; ++i) {
            const unsigned at_row = transposed ? minor + i : major, at_column = transposed ? major : minor + i;
            std::memcpy(&pair[i], rows.of[8 * matrix + at_row] + 2 * at_column, 2);
        }
        r[matrix] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
    }
}

inline void stmatrix(const char* what, void* row, const unsigned (&r)[4], Site site) {
    check_aligned(what, row, 16, site);
    shared_address(row, site);
    check_range(row, 16);
    const Met<unsigned char*> rows(what, all_lanes, static_cast<unsigned char*>(row), site);
    for (int matrix = 0; matrix < 4; ++matrix) {
        std::memcpy(rows.of[8 * matrix + lane() / 4] + lane() % 4 * 4, &r[matrix], 4);
    }
}

struct Operands {
    unsigned a[4], b[2];
};

// d += a b, where `a_at(operands of all lanes, row, k)` and `b_at(.., k, column)` find the values. The sum is rounded
// once here; a tensor core rounds in its own way, which only a GPU shows.
template <class A, class B>
void mma(const char* what, int depth, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], A a_at, B b_at,
         Site site) {
    const Operands mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const Met<Operands> met(what, all_lanes, mine, site);
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
        double sum = d[i];
        for (int k = 0; k < depth; ++k) sum += a_at(met.of, row, k) * b_at(met.of, k, column);
        d[i] = static_cast<float>(sum);
    }
}

template <class F>
void mma_k16(const char* what, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site) {
    mma(
        what, 16, d, a, b,
        [](const Operands* of, int row, int k) {
            return value_in<F>(of[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
        },
        [](const Operands* of, int k, int column) { return value_in<F>(of[column * 4 + k % 8 / 2].b[k / 8], k % 2); },
        site);
}

// The device looks at the upper 19 bits only.
inline double tf32(unsigned bits) { return bits_as<float>(bits & 0xFFFFE000u); }

// A float to 10 bits of mantissa. Adding to the bits carries into the exponent by itself.
inline unsigned to_tf32(float x, bool ties_to_even) {
    const auto bits = bits_as<unsigned>(x);
    if (std::isnan(x)) return 0x7FFFFFFFu;
    if (std::isinf(x)) return bits;
    return (bits + (ties_to_even ? 0xFFFu + (bits >> 13 & 1u) : 0x1000u)) & 0xFFFFE000u;
}

}  // namespace host_cuda

#define HOST_CUDA_LDMATRIX(count)                                                           \
    inline void ldmatrix_x##count(unsigned (&r)[count], const void* row,                    \
                                  host_cuda::Site site = host_cuda::Site::here()) {         \
        host_cuda::ldmatrix("ldmatrix.x" #count, r, row, false, site);                      \
    }                                                                                       \
    inline void ldmatrix_x##count##_trans(unsigned (&r)[count], const void* row,            \
                                          host_cuda::Site site = host_cuda::Site::here()) { \
        host_cuda::ldmatrix("ldmatrix.x" #count ".trans", r, row, true, site);              \
    }

namespace ptx {

HOST_CUDA_LDMATRIX(1)
HOST_CUDA_LDMATRIX(2)
HOST_CUDA_LDMATRIX(4)
#undef HOST_CUDA_LDMATRIX

inline void stmatrix_x4(void* row, const unsigned (&r)[4], host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::stmatrix("stmatrix.x4", row, r, site);
}

inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::mma_k16<host_cuda::HalfFormat>("mma.m16n8k16.f16", d, a, b, site);
}
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::mma_k16<host_cuda::Bfloat16Format>("mma.m16n8k16.bf16", d, a, b, site);
}
inline void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             host_cuda::Site site = host_cuda::Site::here()) {
    using host_cuda::Operands;
    host_cuda::mma(
        "mma.m16n8k8.tf32", 8, d, a, b,
        [](const Operands* of, int row, int k) {
            return host_cuda::tf32(of[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2]);
        },
        [](const Operands* of, int k, int column) { return host_cuda::tf32(of[column * 4 + k % 4].b[k / 4]); }, site);
}

inline unsigned cvt_rna_tf32(float x) { return host_cuda::to_tf32(x, false); }
inline unsigned cvt_rn_tf32(float x) { return host_cuda::to_tf32(x, true); }

}  // namespace ptx
