// Text rows: the row of each sentence, end to end.
//
//   labels  int32 [lines]
//   points  int32 [lines]        scores in ten-thousandths (text_points)
//   blocks  int32 [blocks]       bytes of the rows before each block
//   at      int32 [2 * columns + POINTS + 1]   where the pieces of rows begin (text_rows.cuh)
//   pieces  uint8 [bytes]        all pieces end to end
//   rows    uint8 [bytes]        as many as the pieces of all sentences have are written
//
// A block takes THREADS lines: its threads list their pieces, then each byte looks for its line.
#include "text_common.cuh"
#include "text_rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
text_rows(const int* __restrict__ labels, const int* __restrict__ points, const int* __restrict__ blocks,
          const int* __restrict__ at, const unsigned char* __restrict__ pieces, unsigned char* __restrict__ rows,
          int lines, int columns) {
    __shared__ int begins[THREADS];  // of each row, among the bytes of this block
    __shared__ Pieces all[THREADS];
    const int line = blockIdx.x * THREADS + threadIdx.x;
    Pieces own{};
    if (line < lines) own = pieces_of(at, columns, labels[line], points[line]);
    int total;
    begins[threadIdx.x] = sum_before(own.size(), total);
    all[threadIdx.x] = own;
    __syncthreads();

    unsigned char* const out = rows + blocks[blockIdx.x];
    for (int i = threadIdx.x; i < total; i += THREADS) {
        int row = 0;  // the last one that begins at or before this byte: lines that are not there begin at the end
        for (int step = THREADS / 2; step > 0; step /= 2) {
            if (begins[row + step] <= i) row += step;
        }
        out[i] = pieces[all[row].place(i - begins[row])];
    }
}
