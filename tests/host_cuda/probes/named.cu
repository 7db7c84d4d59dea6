// y = x + 1 by two halves of a block that hand a tile to and fro: the first writes it, the second reads it. A probe of
// named barriers.
//
//   x, y  int32 [rounds, 64]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
named(const int* __restrict__ x, int* __restrict__ y, int rounds) {
    __shared__ int tile[64];
    const int full = 1, empty = 2, i = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int round = 0; round < rounds; ++round) {
            ptx::barrier_sync(empty, 128);
            tile[i] = x[round * 64 + i] + 1;
            ptx::barrier_arrive(full, 128);
        }
    } else {
        ptx::barrier_arrive(empty, 128);
        for (int round = 0; round < rounds; ++round) {
            ptx::barrier_sync(full, 128);
            y[round * 64 + i] = tile[63 - i];
            if (round + 1 < rounds) ptx::barrier_arrive(empty, 128);
        }
    }
}
