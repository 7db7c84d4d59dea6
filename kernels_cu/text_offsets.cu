// Text offsets: where each sentence begins among all, and the padding behind its tokens.
//
//   found    int32 [room]       tokens up to the end of each line (text_ends)
//   counts   int32 [counts]     [LINES] is read
//   blocks   int32 [blocks]     tokens of the blocks before each (text_lengths)
//   offsets  int32 [room + 1]   from the place within a block to that among all
//   ids      int32 [tokens]     `pad` is written behind the tokens of a sentence
#include "text_common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
text_offsets(const int* __restrict__ found, const int* __restrict__ counts, const int* __restrict__ blocks,
             int* __restrict__ offsets, int* __restrict__ ids, int least, int pad, int room) {
    const int line = blockIdx.x * THREADS + threadIdx.x;
    const int lines = min(counts[LINES], room);
    if (line > lines) return;
    const int first = offsets[line] + blocks[blockIdx.x];
    offsets[line] = first;
    if (line == lines) return;
    for (int i = tokens_of(found, line); i < least; ++i) ids[first + i] = pad;
}
