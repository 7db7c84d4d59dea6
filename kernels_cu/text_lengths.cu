// Text lengths: the tokens of each sentence, padded to `least` and cut at `most`, and what is special about it.
//
//   text       uint8 [size]
//   ends       int32 [room]       where each line ends (text_ends)
//   found      int32 [room]       tokens up to there
//   counts     int32 [counts]     [LINES] is read; truncated and blank lines are added to theirs
//   offsets    int32 [room + 1]   where a sentence begins among those of its block; the last is where all end
//   blocks     int32 [blocks]     tokens of the sentences of each block
//   truncated  uint8 [room]       whether a line has more than `most` tokens or more than `limit` bytes
//   blank      uint8 [room]       whether it has no token
//
// A thread a line, and one behind the last. A carriage return before the newline is no byte of the line.
#include "text_common.cuh"

__device__ __forceinline__ int size_of(const unsigned char* text, const int* ends, int line) {
    const int begin = line > 0 ? ends[line - 1] + 1 : 0, end = ends[line];
    return end - begin - (end > begin && text[end - 1] == '\r');
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_lengths(const unsigned char* __restrict__ text, const int* __restrict__ ends, const int* __restrict__ found,
             int* __restrict__ counts, int* __restrict__ offsets, int* __restrict__ blocks,
             unsigned char* __restrict__ truncated, unsigned char* __restrict__ blank,
             int least, int most, int limit, int room) {
    const int line = blockIdx.x * THREADS + threadIdx.x;
    const int lines = min(counts[LINES], room);
    bool cut = false, bare = false;
    int length = 0, total;
    if (line < lines) {
        const int own = tokens_of(found, line);
        cut = own > most || size_of(text, ends, line) > limit;
        bare = own == 0;
        length = min(max(own, least), most);
        truncated[line] = cut;
        blank[line] = bare;
    }
    const int before = sum_before(length, total);
    if (line <= lines) offsets[line] = before;
    const int all_cut = __syncthreads_count(cut), all_bare = __syncthreads_count(bare);
    if (threadIdx.x != 0) return;
    blocks[blockIdx.x] = total;
    if (all_cut) atomicAdd(counts + TRUNCATED, all_cut);
    if (all_bare) atomicAdd(counts + BLANK, all_bare);
}
