// d [64, N] = c + a [64, 64] times b [N, 64] transposed, by wgmma from shared memory. A probe.
//
//   a  uint16 [64, 64], b uint16 [N, 64]   f16, or bf16 where BF16 is 1
//   c, d  float32 [64, N]
//   shared memory: (64 + N) * 128 bytes and 1024 for their alignment
//
// A tile's rows are cut into chunks of `row_bytes` bytes along k; a chunk holds its piece of every row. SWIZZLE is
// that of wgmma's descriptors.
#include "ptx.cuh"

__device__ __forceinline__ void store(unsigned char* tile, int rows, int row_bytes, int row, int k,
                                      unsigned short value) {
    const int chunk = 2 * k / row_bytes;
    int at = chunk * rows * row_bytes + row * row_bytes + 2 * k % row_bytes;
    if (SWIZZLE != 0) at ^= at >> 3 & (row_bytes - 1) & ~15;
    *reinterpret_cast<unsigned short*>(tile + at) = value;
}

__device__ __forceinline__ unsigned long long describe(const unsigned char* tile, int rows, int row_bytes, int k) {
    const int chunk = 2 * k / row_bytes;
    return ptx::wgmma_descriptor(tile + chunk * rows * row_bytes + 2 * k % row_bytes, rows * row_bytes, 8 * row_bytes,
                                 static_cast<ptx::Swizzle>(SWIZZLE));
}

__device__ __forceinline__ void multiply(float (&sum)[N / 2], unsigned long long a, unsigned long long b, int add) {
#if N == 64 && !BF16
    ptx::wgmma_m64n64k16_f16(sum, a, b, add);
#elif N == 64
    ptx::wgmma_m64n64k16_bf16(sum, a, b, add);
#elif N == 128 && !BF16
    ptx::wgmma_m64n128k16_f16(sum, a, b, add);
#elif N == 128
    ptx::wgmma_m64n128k16_bf16(sum, a, b, add);
#elif N == 256 && !BF16
    ptx::wgmma_m64n256k16_f16(sum, a, b, add);
#else
    ptx::wgmma_m64n256k16_bf16(sum, a, b, add);
#endif
}

extern "C" __global__ void __launch_bounds__(128)
warpgroup(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b, const float* __restrict__ c,
          float* __restrict__ d, int add) {
    extern __shared__ unsigned char memory[];
    const int row_bytes = SWIZZLE == 0 ? 16 : 256 >> SWIZZLE;
    unsigned char* left = memory + (1024 - __cvta_generic_to_shared(memory) % 1024) % 1024;
    unsigned char* right = left + 64 * 128;
    for (int i = threadIdx.x; i < 64 * 64; i += 128) store(left, 64, row_bytes, i / 64, i % 64, a[i]);
    for (int i = threadIdx.x; i < N * 64; i += 128) store(right, N, row_bytes, i / 64, i % 64, b[i]);
    ptx::fence_proxy_async();
    __syncthreads();

    const int first_row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, first_column = threadIdx.x % 4 * 2;
    float sum[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = c[(first_row + i % 4 / 2 * 8) * N + i / 4 * 8 + first_column + i % 2];
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        multiply(sum, describe(left, 64, row_bytes, k), describe(right, N, row_bytes, k), add || k > 0);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < N / 2; ++i) d[(first_row + i % 4 / 2 * 8) * N + i / 4 * 8 + first_column + i % 2] = sum[i];
}
