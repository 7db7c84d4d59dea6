// Transpose: y[i, c, r] = x[i, r, c], in the type of OUTPUT.
//
//   x  float32 [count, rows, columns]
//   y  OUTPUT  [count, columns, pitch]   the first `rows` of each row are written; see tensor_types.cuh
//
// A block moves a tile of TILE x TILE through shared memory, so that both sides are read and written along rows; the
// tile's rows are one longer, so that its columns lie in different banks. Grid: matrices, tiles of rows, of columns.
#include "tensor_types.cuh"

#if !defined(TILE) || !defined(ROWS)
#error "TILE or ROWS not defined"
#endif

extern "C" __global__ void __launch_bounds__(TILE* ROWS)
transpose(const float* __restrict__ x, unsigned char* __restrict__ y, long long rows, int columns, int pitch,
          long long y_low) {
    __shared__ float tile[TILE][TILE + 1];
    const long long matrix = blockIdx.x * rows * columns;
    const int first_row = blockIdx.y * TILE;
    const int first_column = blockIdx.z * TILE;
    const int column = first_column + threadIdx.x;
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        const int row = first_row + i;
        if (row < rows && column < columns) {
            tile[i][threadIdx.x] = x[matrix + static_cast<long long>(row) * columns + column];
        }
    }
    __syncthreads();
    const int row = first_row + threadIdx.x;
    const long long first = static_cast<long long>(blockIdx.x) * columns + first_column + threadIdx.y;
    Y* out = reinterpret_cast<Y*>(y) + first * pitch + row;
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        if (row < rows && first_column + i < columns) store(out, y_low, tile[threadIdx.x][i]);
        out += static_cast<long long>(ROWS) * pitch;
    }
}
