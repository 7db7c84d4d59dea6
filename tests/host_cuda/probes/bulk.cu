// y[i] = x[0, i] + ... + x[tiles - 1, i]: one warpgroup brings tiles by bulk copies into a ring of two, the other adds.
// A probe of mbarrier and cp.async.bulk.
//
//   x  float32 [tiles, 256]
//   y  float32 [256]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
bulk(const float* __restrict__ x, float* __restrict__ y, int tiles) {
    __shared__ __align__(128) float ring[2][256];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            ptx::mbarrier_init(&full[slot], 1);
            ptx::mbarrier_init(&empty[slot], 128);
        }
        ptx::fence_proxy_async();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        ptx::setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            for (int tile = 0; tile < tiles; ++tile) {
                const int slot = tile % 2, round = tile / 2;
                while (!ptx::mbarrier_try_wait_parity(&empty[slot], round % 2 ^ 1)) {}
                ptx::mbarrier_arrive_expect_tx(&full[slot], sizeof ring[slot]);
                ptx::cp_async_bulk(ring[slot], x + tile * 256, sizeof ring[slot], &full[slot]);
            }
        }
    } else {
        ptx::setmaxnreg_inc<240>();
        const int i = threadIdx.x - 128;
        float low = 0.0f, high = 0.0f;
        for (int tile = 0; tile < tiles; ++tile) {
            const int slot = tile % 2, round = tile / 2;
            while (!ptx::mbarrier_try_wait_parity(&full[slot], round % 2)) {}
            low += ring[slot][i];
            high += ring[slot][i + 128];
            ptx::mbarrier_arrive(&empty[slot]);
        }
        y[i] = low;
        y[i + 128] = high;
    }
}
