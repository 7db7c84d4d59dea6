// MMA GEMM: sums[m, n] = sum_k a[m, k] * w[n, k], 16-bit or tf32 operands, fp32 sums; then bias and what EPILOGUE says.
//
//   a       operands [.., a_row]          the rows: see ROWS in mma_operands.cuh
//   starts  int32    [rows]               where each row begins in x or ids, ascending; ROWS 1 and 2
//   ids     int32    [tokens]             ROWS 2
//   packed  operands [depth / BK, packed_row, 128 bytes]   the weights, from pack_tiles
//   bias    float32  [columns]            with BIAS 1
//   gate    float32  [rows, EXPERTS]      EPILOGUE 4, 5
//   owners  int32    [rows]               each row's row of y, equal ones together; EPILOGUE 2
//   y       OUTPUT   [.., stride]         from `column` on: see fragment_epilogue.cuh
//
// Every row is padded to whole steps of BK with zeros. With SPLIT an operand is the sum of two halves, the low ones
// a_low, packed_low, y_low further on; of their four products the smallest is left out. z is a batch: a, packed and y
// go on by so many operands each time. `scale` undoes that of the weights.
//
// Operands come by cp.async, STAGES - 1 steps ahead; a warp reads the next products' while it makes one's. Tensor cores
// cut off as they add up: after PROMOTE of k sums go on in ordinary registers (0: never).
#include "bands.cuh"
#include "fragment_epilogue.cuh"
#include "mma_operands.cuh"

#ifndef ROWS
#error "ROWS not defined"
#endif

static_assert(EPILOGUE != EPILOGUE_RESIDUAL || ROWS == ROWS_MATRIX, "rows that lie one after the other");

using Sums = float[MT][NT][4];

// What a warp multiplies at once: 32 bytes along k, of all its rows or all its columns. Lane l of the warp names a row,
// and of it the first or the second piece, for each 8 x 16 bytes.
using Rows = unsigned[MT][4];
using Columns = unsigned[NT][2];

__device__ __forceinline__ void read(Rows& a, const uint4* from) {
#pragma unroll
    for (int m = 0; m < MT; ++m) ptx::ldmatrix_x4(a[m], from + m * 16 * 8);
}

__device__ __forceinline__ void read(Columns& b, const uint4* from) {
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
        unsigned both[4];
        ptx::ldmatrix_x4(both, from + n * 8 * 8);
        b[n][0] = both[0], b[n][1] = both[1];
        b[n + 1][0] = both[2], b[n + 1][1] = both[3];
    }
}

__device__ __forceinline__ void multiply(Sums& sums, const Rows& a, const Columns& b) {
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
        for (int n = 0; n < NT; ++n) {
#if TYPE == 0
            ptx::mma_m16n8k16_f16(sums[m][n], a[m], b[n]);
#elif TYPE == 1
            ptx::mma_m16n8k16_bf16(sums[m][n], a[m], b[n]);
#else
            ptx::mma_m16n8k8_tf32(sums[m][n], a[m], b[n]);
#endif
        }
    }
}

__device__ __forceinline__ void promote(Sums& total, Sums& sums) {
#pragma unroll
    for (int i = 0; i < MT * NT * 4; ++i) {
        float& sum = sums[i / (NT * 4)][i / 4 % NT][i % 4];
        total[i / (NT * 4)][i / 4 % NT][i % 4] += sum;
        sum = 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
mma_gemm(const unsigned char* __restrict__ a, const int* __restrict__ starts, const int* __restrict__ ids,
         const unsigned char* __restrict__ packed, const float* __restrict__ bias, const float* __restrict__ gate,
         const int* __restrict__ owners, unsigned char* __restrict__ y, long long rows, int columns, int depth,
         int a_row, int packed_row, int stride, int column, int dimension, long long a_low, long long packed_low,
         long long y_low, long long a_step, long long packed_step, long long y_step, float scale) {
    extern __shared__ uint4 stages[];

    const int tiles_across = (columns + BN - 1) / BN;
    const int tiles_down = static_cast<int>((rows + BM - 1) / BM);
    const TileAt tile_at(blockIdx.x, tiles_down, tiles_across);
    const long long block_row = static_cast<long long>(tile_at.down) * BM;
    const int block_column = tile_at.across * BN;
    const int block_rows = static_cast<int>(min(rows - block_row, static_cast<long long>(BM)));

    const uint4* const a_pieces = reinterpret_cast<const uint4*>(a) + blockIdx.z * (a_step / PIECE);
    const uint4* const packed_pieces = reinterpret_cast<const uint4*>(packed) + blockIdx.z * (packed_step / PIECE);
    Copies copies{{a_pieces, a_low / PIECE, starts, ids, block_row, block_rows, depth / PIECE, a_row / PIECE,
                   dimension / PIECE},
                  {packed_pieces, packed_low / PIECE, packed_row, block_column},
                  stages,
                  depth / BK};
    for (int i = 0; i < STAGES - 1; ++i) copies.next();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / WARPS_ACROSS * WM, warp_column = warp % WARPS_ACROSS * WN;
    const int a_piece = lane / 16 ^ lane % 8, b_piece = lane / 8 % 2 ^ lane % 8;
    const uint4* const a_read = stages + (warp_row + lane % 16) * 8;
    const uint4* const b_read = stages + HALVES * A_TILE + (warp_column + lane / 16 * 8 + lane % 8) * 8;
    int stage = 0;

    Sums sums = {};
#if PROMOTE
    Sums total = {};
#endif
    // Without SPLIT: what is multiplied and what comes next, in turn. With it: the high halves and the low ones.
    Rows a_now[2];
    Columns b_now[2];
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
        read(a_now[half], a_read + half * A_TILE + a_piece);
        read(b_now[half], b_read + half * B_TILE + b_piece);
    }

    for (int k = 0; k < depth; k += BK) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (SPLIT) multiply(sums, a_now[1], b_now[0]);
            if (i == 3) {  // what follows has come for all threads, and all have read what is overwritten next
                stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
                ptx::cp_async_wait_group<STAGES - 2>();
                __syncthreads();
            }
            const uint4* const a_next = a_read + stage + (a_piece ^ (i + 1) % 4 * 2);
            const uint4* const b_next = b_read + stage + (b_piece ^ (i + 1) % 4 * 2);
#if SPLIT  // each half is read again as soon as it is not needed any more, a product or two before it is
            read(a_now[1], a_next + A_TILE);
            multiply(sums, a_now[0], b_now[0]);
            read(b_now[0], b_next);
            if (i == 0) copies.next();
            multiply(sums, a_now[0], b_now[1]);
            read(a_now[0], a_next);
            read(b_now[1], b_next + B_TILE);
#else
            read(a_now[(i + 1) % 2], a_next);
            read(b_now[(i + 1) % 2], b_next);
            if (i == 0) copies.next();
            multiply(sums, a_now[i % 2], b_now[i % 2]);
#endif
        }
#if PROMOTE
        if ((k + BK) % PROMOTE == 0 || k + BK == depth) promote(total, sums);
#endif
    }

    FragmentPlace place{warp_row, block_column + warp_column, block_rows, columns};
    place.y = reinterpret_cast<Y*>(y) + blockIdx.z * y_step + column;
    if (EPILOGUE != EPILOGUE_GETMAX) place.y += block_row * stride;
    place.stride = stride;
    place.y_low = y_low;
    place.x = reinterpret_cast<const Operand*>(a) + blockIdx.z * a_step + block_row * a_row;
    place.x_row = a_row;
    place.x_low = a_low;
    place.scale = scale;
    place.bias = bias;
    place.gate = gate + (EPILOGUE >= EPILOGUE_EXPERTS ? block_row * EXPERTS : 0);
    place.owners = owners + (EPILOGUE == EPILOGUE_GETMAX ? block_row : 0);
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#if PROMOTE
        finish(total[m], place);
#else
        finish(sums[m], place);
#endif
        place.row += 16;
    }
}
