// y[block] = (rank + 1) times the sum of its cluster's tiles. Each block of a cluster brings its share of every tile,
// for all of them, into rings of two. A probe of clusters.
//
//   x  float32 [clusters, tiles, 256]
//   y  float32 [clusters * CLUSTER, 256]
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(160)
multicast(const float* __restrict__ x, float* __restrict__ y, int tiles) {
    __shared__ __align__(128) float ring[2][256];
    __shared__ unsigned long long full[2], empty[2];
    const int share = 256 / CLUSTER, warps = 4;
    const unsigned rank = ptx::cluster_rank();
    x += blockIdx.x / CLUSTER * tiles * 256 + rank * share;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            ptx::mbarrier_init(&full[slot], 1);
            ptx::mbarrier_init(&empty[slot], CLUSTER * warps);
        }
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();  // all barriers are there
    float low = 0.0f, high = 0.0f;
    if (threadIdx.x == 128) {
        for (int tile = 0; tile < tiles; ++tile) {
            const int slot = tile % 2, round = tile / 2;
            while (!ptx::mbarrier_try_wait_parity_cluster(&empty[slot], round % 2 ^ 1)) {}
            ptx::mbarrier_arrive_expect_tx(&full[slot], sizeof ring[slot]);
            ptx::cp_async_bulk_multicast(&ring[slot][rank * share], x + tile * 256, share * sizeof(float), &full[slot],
                                         (1 << CLUSTER) - 1);
        }
    } else if (threadIdx.x < 128) {
        for (int tile = 0; tile < tiles; ++tile) {
            const int slot = tile % 2, round = tile / 2;
            while (!ptx::mbarrier_try_wait_parity(&full[slot], round % 2)) {}
            low += ring[slot][threadIdx.x];
            high += ring[slot][threadIdx.x + 128];
            __threadfence();  // for the arrivals that order nothing
            __syncwarp();
            if (threadIdx.x % 32 >= CLUSTER) continue;
            if (slot) ptx::mbarrier_arrive_cluster_relaxed(&empty[slot], threadIdx.x % 32);
            else ptx::mbarrier_arrive_cluster(&empty[slot], threadIdx.x % 32);
        }
    }
    __syncwarp();
    ptx::cluster_arrive();
    if (threadIdx.x < 128) {
        y[blockIdx.x * 256 + threadIdx.x] = (rank + 1) * low;
        y[blockIdx.x * 256 + threadIdx.x + 128] = (rank + 1) * high;
    }
    ptx::cluster_wait();  // nobody arrives here any more
}
