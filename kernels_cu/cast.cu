// Cast: rows of floats as operands of tensor cores, zeros behind each row.
//
//   x  float32 [rows, columns]
//   y  OUTPUT  [rows, pitch]                                        written whole, PACKED 0
//   y  OUTPUT  [pitch / STEP, rows rounded up to 8, 128 bytes]      written whole, PACKED 1: see packed_place.cuh
//
// pitch is even, and with PACKED a multiple of STEP. One thread for two values of a row.
#include "common.cuh"
#include "packed_place.cuh"

#if !defined(THREADS) || !defined(PACKED)
#error "THREADS or PACKED not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
cast(const float* __restrict__ x, unsigned char* __restrict__ y, long long rows, int columns, int pitch,
     long long y_low) {
    const long long padded_rows = PACKED ? (rows + 7) / 8 * 8 : rows;
    const long long place = global_thread() * 2;
    if (place >= padded_rows * pitch) return;
    const long long row = place / pitch;
    const int column = place % pitch;
    const float* const from = x + row * columns + column;
    const float first = row < rows && column < columns ? from[0] : 0.0f;
    const float second = row < rows && column + 1 < columns ? from[1] : 0.0f;
    const long long to = PACKED ? packed_place(row, column, padded_rows) : place;
    store_pair(reinterpret_cast<Y*>(y) + to, y_low, first, second);
}
