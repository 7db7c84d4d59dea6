// Text marks: where tokens start and stop. Of each line the first `limit` bytes are looked at.
//
//   text    uint8 [size]
//   breaks  uint32 [tiles, THREADS]   where lines end (text_lines)
//   starts  uint32 [tiles, THREADS]   bit b of word w: whether a token starts at byte 32 * w + b
//   stops   uint32 [tiles, THREADS]   whether a token that began before has ended there
//   tokens  int32 [tiles]             tokens that start in each tile
//
// A warp makes the masks of a word of 32 bytes by votes, a lane a byte; then a thread
// applies the rule to its word, with half a word on either side.
#include "text_rule.cuh"
#include "text_common.cuh"

constexpr int AROUND = THREADS + 2;  // words that a block looks at: one before and one behind its own

// Where the line begins that holds the first byte of a word; if further away than `limit`, so far away. All lanes.
__device__ __forceinline__ int line_start(const unsigned* breaks, int word, int limit) {
    const int furthest = max(0, 32 * word - limit);
    const int lane = threadIdx.x % 32;
    for (int near = word - 1; 32 * near + 31 >= furthest; near -= 32) {
        const unsigned mine = near >= lane ? breaks[near - lane] : 0u;
        const unsigned found = __ballot_sync(WARP, mine != 0u);
        if (!found) continue;
        const int nearest = __ffs(found) - 1;
        return 32 * (near - nearest) + 32 - __clz(__shfl_sync(WARP, mine, nearest));
    }
    return furthest;
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_marks(const unsigned char* __restrict__ text, const unsigned* __restrict__ breaks,
           unsigned* __restrict__ starts, unsigned* __restrict__ stops, int* __restrict__ tokens,
           int size, int limit) {
    __shared__ unsigned table[256];
    __shared__ unsigned masks[CLASSES][AROUND];
    for (int byte = threadIdx.x; byte < 256; byte += THREADS) table[byte] = classes(byte);
    __syncthreads();

    const int lane = threadIdx.x % 32;
    const int share = (AROUND + THREADS / 32 - 1) / (THREADS / 32);  // words a warp
    const int begin = threadIdx.x / 32 * share, end = min(begin + share, AROUND);
    const int first = blockIdx.x * THREADS - 1;
    int start = line_start(breaks, first + begin, limit);
    for (int word = begin; word < end; ++word) {
        const int base = 32 * (first + word), place = base + lane;
        const bool there = 0 <= place && place < size;
        const int byte = there ? text[place] : 0;
        const unsigned newlines = __ballot_sync(WARP, byte == '\n');
        const unsigned earlier = below(newlines, lane);
        const int own_start = earlier ? base + 32 - __clz(earlier) : start;
        const unsigned what = there && place - own_start < limit ? table[byte] : 0u;
        unsigned mine = 0;
#pragma unroll
        for (int kind = 0; kind < CLASSES; ++kind) {
            const unsigned mask = __ballot_sync(WARP, what >> kind & 1u);
            if (lane == kind) mine = mask;
        }
        if (lane < CLASSES) masks[lane][word] = mine;
        if (newlines) start = base + 32 - __clz(newlines);
    }
    __syncthreads();

    const Marks found = marks([&](int kind) {
        const unsigned* words = masks[kind] + threadIdx.x;
        return words[0] >> 16 | static_cast<unsigned long long>(words[1]) << 16 |
               static_cast<unsigned long long>(words[2]) << 48;
    });
    const int own = blockIdx.x * THREADS + threadIdx.x;
    starts[own] = found.starts;
    stops[own] = found.stops;
    int total;
    sum_before(__popc(found.starts), total);
    if (threadIdx.x == 0) tokens[blockIdx.x] = total;
}
