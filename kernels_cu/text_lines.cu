// Text lines: where they end. A newline ends a line, and the end of the text one that lacks its newline.
//
//   text    uint8 [size]
//   breaks  uint32 [tiles, THREADS]   bit b of word w: whether a line ends at byte 32 * w + b
//   lines   int32 [tiles]             lines that end in each tile
#include "text_common.cuh"

__device__ __forceinline__ bool ends_line(const unsigned char* text, int place, int size) {
    if (place < size) return text[place] == '\n';
    return place == size && size > 0 && text[size - 1] != '\n';
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_lines(const unsigned char* __restrict__ text, unsigned* __restrict__ breaks, int* __restrict__ lines,
           int size) {
    const int word = blockIdx.x * THREADS + threadIdx.x;
    const int lane = threadIdx.x % 32;
    unsigned mine = 0;
#pragma unroll 8
    for (int other = 0; other < 32; ++other) {  // a warp takes the words of its lanes in turn
        const int place = 32 * (word - lane + other) + lane;
        const unsigned bits = __ballot_sync(WARP, ends_line(text, place, size));
        if (other == lane) mine = bits;
    }
    breaks[word] = mine;
    int total;
    sum_before(__popc(mine), total);
    if (threadIdx.x == 0) lines[blockIdx.x] = total;
}
