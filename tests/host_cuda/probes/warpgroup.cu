// d [64, N] = c + a [64, depth] times b [N, depth] transposed, by wgmma from shared memory. A probe.
//
//   a  [64, depth], b [N, depth]   uint16, f16 or bf16, depth 64, as KIND is 0 or 1; uint32, tf32, depth 32: KIND 2
//   c, d  float32 [64, N]
//   shared memory: (64 + N) * 128 bytes and 1024 for their alignment
//
// A tile's rows are cut into chunks of `row_bytes` bytes along k; a chunk holds its piece of every row. SWIZZLE is
// that of wgmma's descriptors.
#include "ptx.cuh"

#if KIND == 2
typedef unsigned Word;
#else
typedef unsigned short Word;
#endif
constexpr int DEPTH = 128 / sizeof(Word);

// Where byte `k` of a row lies in its tile, before the swizzle.
__device__ __forceinline__ int place(int rows, int row_bytes, int row, int k) {
    return k / row_bytes * rows * row_bytes + row * row_bytes + k % row_bytes;
}

__device__ __forceinline__ void store(unsigned char* tile, int rows, int row_bytes, const Word* from) {
    for (int i = threadIdx.x; i < rows * DEPTH; i += 128) {
        int at = place(rows, row_bytes, i / DEPTH, i % DEPTH * sizeof(Word));
        if (SWIZZLE != 0) at ^= at >> 3 & (row_bytes - 1) & ~15;
        *reinterpret_cast<Word*>(tile + at) = from[i];
    }
}

__device__ __forceinline__ unsigned long long describe(const unsigned char* tile, int rows, int row_bytes, int k) {
    return ptx::wgmma_descriptor(tile + place(rows, row_bytes, 0, k), rows * row_bytes, 8 * row_bytes,
                                 static_cast<ptx::Swizzle>(SWIZZLE));
}

__device__ __forceinline__ void multiply(float (&sum)[32], unsigned long long a, unsigned long long b, int add) {
    if (KIND == 0) ptx::wgmma_m64n64k16_f16(sum, a, b, add);
    if (KIND == 1) ptx::wgmma_m64n64k16_bf16(sum, a, b, add);
    if (KIND == 2) ptx::wgmma_m64n64k8_tf32(sum, a, b, add);
}
__device__ __forceinline__ void multiply(float (&sum)[64], unsigned long long a, unsigned long long b, int add) {
    if (KIND == 0) ptx::wgmma_m64n128k16_f16(sum, a, b, add);
    if (KIND == 1) ptx::wgmma_m64n128k16_bf16(sum, a, b, add);
    if (KIND == 2) ptx::wgmma_m64n128k8_tf32(sum, a, b, add);
}
__device__ __forceinline__ void multiply(float (&sum)[96], unsigned long long a, unsigned long long b, int add) {
    if (KIND == 0) ptx::wgmma_m64n192k16_f16(sum, a, b, add);
    if (KIND == 1) ptx::wgmma_m64n192k16_bf16(sum, a, b, add);
    if (KIND == 2) ptx::wgmma_m64n192k8_tf32(sum, a, b, add);
}
__device__ __forceinline__ void multiply(float (&sum)[128], unsigned long long a, unsigned long long b, int add) {
    if (KIND == 0) ptx::wgmma_m64n256k16_f16(sum, a, b, add);
    if (KIND == 1) ptx::wgmma_m64n256k16_bf16(sum, a, b, add);
    if (KIND == 2) ptx::wgmma_m64n256k8_tf32(sum, a, b, add);
}

extern "C" __global__ void __launch_bounds__(128)
warpgroup(const Word* __restrict__ a, const Word* __restrict__ b, const float* __restrict__ c, float* __restrict__ d,
          int add) {
    extern __shared__ unsigned char memory[];
    const int row_bytes = SWIZZLE == 0 ? 16 : 256 >> SWIZZLE;
    unsigned char* left = memory + (1024 - __cvta_generic_to_shared(memory) % 1024) % 1024;
    unsigned char* right = left + 64 * 128;
    store(left, 64, row_bytes, a);
    store(right, N, row_bytes, b);
    ptx::fence_proxy_async();
    __syncthreads();

    const int first_row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, first_column = threadIdx.x % 4 * 2;
    float sum[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = c[(first_row + i % 4 / 2 * 8) * N + i / 4 * 8 + first_column + i % 2];
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 128; k += 32) {  // a product takes 32 bytes of each row
        multiply(sum, describe(left, 64, row_bytes, k), describe(right, N, row_bytes, k), add || k > 0);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < N / 2; ++i) d[(first_row + i % 4 / 2 * 8) * N + i / 4 * 8 + first_column + i % 2] = sum[i];
}
