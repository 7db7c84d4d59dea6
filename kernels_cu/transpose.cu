// Transpose: y[i, c, r] = x[i, r, c].
//
//   x  float32 [count, rows, columns]
//   y  float32 [count, columns, rows]   written whole
//
// A block moves a tile of TILE x TILE through shared memory, so that both sides are read and written along rows; the
// tile's rows are one longer, so that its columns lie in different banks. Grid: matrices, tiles of rows, of columns.
#if !defined(TILE) || !defined(ROWS)
#error "TILE or ROWS not defined"
#endif

extern "C" __global__ void __launch_bounds__(TILE* ROWS)
transpose(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns) {
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
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        if (row < rows && first_column + i < columns) {
            y[matrix + (first_column + i) * rows + row] = tile[threadIdx.x][i];
        }
    }
}
