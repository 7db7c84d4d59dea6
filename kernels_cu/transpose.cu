// Transpose: y[i, c, r] = x[i, r, c], in the type of OUTPUT.
//
//   x  float32 [count, rows, columns]
//   y  OUTPUT  [count, columns, pitch]   the first `rows` of each row are written; see tensor_types.cuh
//
// A block moves a tile of TALL rows by WIDE columns through shared memory, so that both sides are read and written along
// rows; the tile's rows are one longer, so that its columns lie in different banks. Grid: matrices, tiles of rows, of
// columns.
#include "tensor_types.cuh"

#if !defined(TALL) || !defined(WIDE) || !defined(THREADS)
#error "TALL, WIDE or THREADS not defined"
#endif

static_assert(THREADS % TALL == 0 && THREADS % WIDE == 0, "whole rows and columns at a time");

extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const float* __restrict__ x, unsigned char* __restrict__ y, long long rows, int columns, int pitch,
          long long y_low) {
    __shared__ float tile[TALL][WIDE + 1];
    const long long matrix = blockIdx.x * rows * columns;
    const int first_row = blockIdx.y * TALL;
    const int first_column = blockIdx.z * WIDE;
    const int column = first_column + threadIdx.x % WIDE;
#pragma unroll
    for (int i = threadIdx.x / WIDE; i < TALL; i += THREADS / WIDE) {
        const int row = first_row + i;
        if (row < rows && column < columns) {
            tile[i][threadIdx.x % WIDE] = x[matrix + static_cast<long long>(row) * columns + column];
        }
    }
    __syncthreads();
    const int row = first_row + threadIdx.x % TALL;
    const long long first = static_cast<long long>(blockIdx.x) * columns + first_column + threadIdx.x / TALL;
    Y* out = reinterpret_cast<Y*>(y) + first * pitch + row;
#pragma unroll
    for (int i = threadIdx.x / TALL; i < WIDE; i += THREADS / TALL) {
        if (row < rows && first_column + i < columns) store(out, y_low, tile[threadIdx.x % TALL][i]);
        out += static_cast<long long>(THREADS / TALL) * pitch;
    }
}
