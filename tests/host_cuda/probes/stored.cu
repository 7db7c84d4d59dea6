// Four 8x8 matrices transposed: ldmatrix reads them so, stmatrix writes them. A probe.
//
//   x  uint16 [32, 8]   the rows of the matrices one after the other
//   y  uint16 [32, 8]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(32)
stored(const unsigned short* __restrict__ x, unsigned short* __restrict__ y) {
    __shared__ __align__(16) unsigned short from[32][8], to[32][8];
    const int lane = threadIdx.x;
    for (int i = 0; i < 8; ++i) from[lane][i] = x[lane * 8 + i];
    __syncwarp();
    unsigned r[4];
    ptx::ldmatrix_x4_trans(r, from[lane]);
    ptx::stmatrix_x4(to[lane], r);
    __syncwarp();
    for (int i = 0; i < 8; ++i) y[lane * 8 + i] = to[lane][i];
}
