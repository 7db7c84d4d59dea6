// c [64, 64] = a [64, depth] times b [64, depth] transposed, in half with sums in float: the whole chain that a tensor
// core kernel has, with copies one tile ahead. A probe.
//
//   a, b   half    [64, depth]   depth is a multiple of 32
//   c      float32 [64, 64]
//
// Four warps of 16 rows each. Rows in shared memory are padded by 16 bytes, so that ldmatrix meets no bank twice.
#include <cuda_fp16.h>

#include "ptx.cuh"

struct Tiles {
    __half a[64][40], b[64][40];
};

__device__ __forceinline__ void load(Tiles& tiles, const __half* a, const __half* b, int depth, int k) {
    for (int i = threadIdx.x; i < 256; i += 128) {
        const int row = i / 4, column = i % 4 * 8;
        ptx::cp_async_16(&tiles.a[row][column], a + row * depth + k + column);
        ptx::cp_async_16(&tiles.b[row][column], b + row * depth + k + column);
    }
}

extern "C" __global__ void __launch_bounds__(128)
tile_product(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c, int depth) {
    __shared__ __align__(16) Tiles ring[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum[8][4] = {};
    load(ring[0], a, b, depth, 0);
    ptx::cp_async_commit_group();
    for (int k = 0; k < depth; k += 32) {
        if (k + 32 < depth) load(ring[(k / 32 + 1) % 2], a, b, depth, k + 32);
        ptx::cp_async_commit_group();
        ptx::cp_async_wait_group<1>();
        __syncthreads();
        const Tiles& tiles = ring[k / 32 % 2];
        for (int step = 0; step < 32; step += 16) {
            unsigned left[4];
            ptx::ldmatrix_x4(left, &tiles.a[warp * 16 + lane % 16][step + lane / 16 * 8]);
            for (int pair = 0; pair < 4; ++pair) {
                unsigned right[4];
                ptx::ldmatrix_x4(right, &tiles.b[pair * 16 + lane / 16 * 8 + lane % 8][step + lane / 8 % 2 * 8]);
                const unsigned first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
                ptx::mma_m16n8k16_f16(sum[2 * pair], left, first);
                ptx::mma_m16n8k16_f16(sum[2 * pair + 1], left, second);
            }
        }
        __syncthreads();  // all have read
    }
    for (int tile = 0; tile < 8; ++tile) {
        for (int i = 0; i < 4; ++i) {
            const int row = warp * 16 + lane / 4 + i / 2 * 8, column = tile * 8 + lane % 4 * 2 + i % 2;
            c[row * 64 + column] = sum[tile][i];
        }
    }
}
