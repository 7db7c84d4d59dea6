// ldmatrix of four 8x8 matrices, and what each lane receives. A probe.
//
//   x    uint16 [32, 8]   the rows of the matrices one after the other
//   out  uint32 [6, 4, 32]   x1, x2, x4, then the same with trans; registers that are not loaded are 0
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(32)
fragments(const unsigned short* __restrict__ x, unsigned* __restrict__ out) {
    __shared__ __align__(16) unsigned short tile[32][8];
    const int lane = threadIdx.x;
    for (int i = 0; i < 8; ++i) tile[lane][i] = x[lane * 8 + i];
    __syncthreads();
    unsigned r1[1], r2[2], r4[4];
    for (int way = 0; way < 6; ++way) {
        unsigned r[4] = {0, 0, 0, 0};
        if (way == 0) ptx::ldmatrix_x1(r1, tile[lane]);
        if (way == 1) ptx::ldmatrix_x2(r2, tile[lane]);
        if (way == 2) ptx::ldmatrix_x4(r4, tile[lane]);
        if (way == 3) ptx::ldmatrix_x1_trans(r1, tile[lane]);
        if (way == 4) ptx::ldmatrix_x2_trans(r2, tile[lane]);
        if (way == 5) ptx::ldmatrix_x4_trans(r4, tile[lane]);
        if (way % 3 == 0) r[0] = r1[0];
        if (way % 3 == 1) r[0] = r2[0], r[1] = r2[1];
        for (int i = 0; i < 4; ++i) out[(way * 4 + i) * 32 + lane] = way % 3 == 2 ? r4[i] : r[i];
    }
}
