// y = x with each tile of THREADS pieces of SIZE bytes backwards, through cp.async in two groups. What lies behind
// `bytes` bytes of x is taken as zeros. A probe.
//
//   x  uint8 [bytes]
//   y  uint8 [2 * THREADS * SIZE]
#include "ptx.cuh"

__device__ __forceinline__ void copy(void* to, const void* from, int bytes) {
    if (SIZE == 4) ptx::cp_async_4(to, from, bytes);
    if (SIZE == 8) ptx::cp_async_8(to, from, bytes);
    if (SIZE == 16) ptx::cp_async_16(to, from, bytes);
}

extern "C" __global__ void __launch_bounds__(THREADS)
copies(const unsigned char* __restrict__ x, unsigned char* __restrict__ y, int bytes) {
    __shared__ __align__(16) unsigned char tile[2][THREADS * SIZE];
    for (int half = 0; half < 2; ++half) {
        const int at = (half * THREADS + threadIdx.x) * SIZE, left = bytes - at;
        copy(&tile[half][threadIdx.x * SIZE], left > 0 ? x + at : x, left < 0 ? 0 : left < SIZE ? left : SIZE);
        ptx::cp_async_commit_group();
    }
    for (int half = 0; half < 2; ++half) {
        if (half == 0) ptx::cp_async_wait_group<1>();
        else ptx::cp_async_wait_group<0>();
        __syncthreads();
        for (int i = 0; i < SIZE; ++i) {
            y[(half * THREADS + threadIdx.x) * SIZE + i] = tile[half][(THREADS - 1 - threadIdx.x) * SIZE + i];
        }
    }
}
