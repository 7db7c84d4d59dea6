// Text ends: of each line where it ends, and how many tokens start before that in the whole text.
//
//   breaks  uint32 [tiles, THREADS]   where lines end (text_lines)
//   starts  uint32 [tiles, THREADS]   where tokens start (text_marks)
//   lines   int32 [tiles]             lines that end before each tile
//   tokens  int32 [tiles]             tokens that start before each tile
//   ends    int32 [room]              the place of the newline, or the size of the text
//   found   int32 [room]              tokens up to there
//
// Of more lines than there is room for, the first are written.
#include "text_common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
text_ends(const unsigned* __restrict__ breaks, const unsigned* __restrict__ starts, const int* __restrict__ lines,
          const int* __restrict__ tokens, int* __restrict__ ends, int* __restrict__ found, int room) {
    const int word = blockIdx.x * THREADS + threadIdx.x;
    const unsigned own_breaks = breaks[word], own_starts = starts[word];
    int total;  // both sums in one: a tile has fewer than 2^16 of either
    const int both = sum_before(__popc(own_starts) << 16 | __popc(own_breaks), total);
    int line = lines[blockIdx.x] + (both & 0xFFFF);
    const int earlier = tokens[blockIdx.x] + (both >> 16);
    for (unsigned left = own_breaks; left && line < room; left &= left - 1u, ++line) {
        const int bit = __ffs(left) - 1;
        ends[line] = 32 * word + bit;
        found[line] = earlier + __popc(below(own_starts, bit));
    }
}
