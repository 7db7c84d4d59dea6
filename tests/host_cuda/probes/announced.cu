// y[i] = x[0, i] + ... + x[tiles - 1, i]: half of the threads bring tiles by cp.async into a ring of two, the others
// add. A probe of arrivals that tell of copies.
//
//   x  float32 [tiles, 256]
//   y  float32 [256]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
announced(const float* __restrict__ x, float* __restrict__ y, int tiles) {
    __shared__ __align__(16) float ring[2][256];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            ptx::mbarrier_init(&full[slot], 64);
            ptx::mbarrier_init(&empty[slot], 64);
        }
    }
    __syncthreads();
    const int i = threadIdx.x % 64 * 4;
    if (threadIdx.x < 64) {
        for (int tile = 0; tile < tiles; ++tile) {
            const int slot = tile % 2, round = tile / 2;
            while (!ptx::mbarrier_try_wait_parity(&empty[slot], round % 2 ^ 1)) {}
            ptx::cp_async_16(&ring[slot][i], x + tile * 256 + i);
            ptx::cp_async_mbarrier_arrive_noinc(&full[slot]);
        }
    } else {
        float sum[4] = {};
        for (int tile = 0; tile < tiles; ++tile) {
            const int slot = tile % 2, round = tile / 2;
            while (!ptx::mbarrier_try_wait_parity(&full[slot], round % 2)) {}
            for (int j = 0; j < 4; ++j) sum[j] += ring[slot][255 - (i + j)];
            ptx::mbarrier_arrive(&empty[slot]);
        }
        for (int j = 0; j < 4; ++j) y[255 - (i + j)] = sum[j];
    }
}
