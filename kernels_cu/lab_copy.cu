// Copy: y[r, c] = x[r, c], by threads in one of two orders.
//
//   x  float32 [rows, columns]
//   y  float32 [rows, columns]   written whole
//
// A block of 32 x ROWS threads takes 32 values a thread. ORDER 0: a warp lies along a row, its lanes STRIDE values
// apart (a power of two up to 32). ORDER 1: a warp lies down a column. All blocks move as many values; what differs is
// how many sectors of 32 bytes one load of a warp touches.
// Grid: tiles of rows, of columns.
#if !defined(ROWS) || !defined(ORDER) || !defined(STRIDE)
#error "ROWS, ORDER or STRIDE not defined"
#endif

constexpr int EACH = 32;  // values of a thread

extern "C" __global__ void __launch_bounds__(32 * ROWS)
lab_copy(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns) {
#if ORDER == 0
    const long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.y;
    const int first = blockIdx.y * (32 * EACH) + threadIdx.x * STRIDE;
#else
    const long long row = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;
    const int first = blockIdx.y * (ROWS * EACH) + threadIdx.y;
#endif
    if (row >= rows) return;
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
#pragma unroll 8
    for (int i = 0; i < EACH; ++i) {
#if ORDER == 0
        const int column = first + i / STRIDE * (32 * STRIDE) + i % STRIDE;
#else
        const int column = first + i * ROWS;
#endif
        if (column < columns) to[column] = from[column];
    }
}
