// Transpose through shared memory, in one of three layouts: y[c, r] = x[r, c].
//
//   x  float32 [rows, columns]
//   y  float32 [columns, rows]   written whole
//
// A block turns a tile of TILE x TILE: its warps write rows of the tile and read columns. In LAYOUT 0 a column lies in
// one bank; in 1 rows are one value longer; in 2 value c of row r lies at c ^ r. Each round turns the tile once more,
// so `rounds` is odd; with many of them shared memory is all that is measured. Grid: tiles of rows, of columns.
#if !defined(TILE) || !defined(ROWS) || !defined(LAYOUT)
#error "TILE, ROWS or LAYOUT not defined"
#endif

constexpr int PITCH = LAYOUT == 1 ? TILE + 1 : TILE;
constexpr int EACH = TILE / ROWS;  // values of a thread

__device__ __forceinline__ int place(int row, int column) {
    return row * PITCH + (LAYOUT == 2 ? column ^ row : column);
}

extern "C" __global__ void __launch_bounds__(TILE* ROWS)
lab_transpose(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns, int rounds) {
    __shared__ float tile[TILE * PITCH];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const long long first_row = static_cast<long long>(blockIdx.x) * TILE;
    const int first_column = blockIdx.y * TILE;
    float held[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const long long row = first_row + warp + i * ROWS;
        const int column = first_column + lane;
        held[i] = row < rows && column < columns ? x[row * columns + column] : 0.0f;
    }
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) tile[place(warp + i * ROWS, lane)] = held[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; ++i) held[i] = tile[place(lane, warp + i * ROWS)];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const long long row = first_row + lane;
        const int column = first_column + warp + i * ROWS;
        if (row < rows && column < columns) y[column * rows + row] = held[i];
    }
}
