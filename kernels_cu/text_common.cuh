// Shared by the kernels for text: tiles of text, sums over a block, and the counts of a chunk.
//
// A block takes a tile of TILE bytes, a thread one word of 32 bits in which each bit is about one byte.
#pragma once

#ifndef THREADS
#error "THREADS not defined"
#endif

constexpr int TILE = 32 * THREADS;
constexpr unsigned WARP = 0xFFFFFFFFu;  // all lanes

enum Count { LINES, FOUND, TOKENS, TRUNCATED, BLANK, INVALID, BROKEN, ROWS };  // as in accel_cli/kernels/text_common.py

// The sum of what the threads before this one in the block bring; `total` is that of all.
__device__ __forceinline__ int sum_before(int value, int& total) {
    __shared__ int sums[THREADS / 32];
    const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
    int sum = value;
    for (int reach = 1; reach < 32; reach *= 2) {
        const int more = __shfl_up_sync(WARP, sum, reach);
        if (lane >= reach) sum += more;
    }
    if (lane == 31) sums[own] = sum;
    __syncthreads();
    int before = sum - value;
    total = 0;
    for (int warp = 0; warp < THREADS / 32; ++warp) {
        if (warp < own) before += sums[warp];
        total += sums[warp];
    }
    __syncthreads();
    return before;
}

// The bits of a word below one of them.
__device__ __forceinline__ unsigned below(unsigned bits, int bit) { return bits & ((1u << bit) - 1u); }

// The tokens of a line; `found` counts those up to the end of each line.
__device__ __forceinline__ int tokens_of(const int* found, int line) {
    return found[line] - (line > 0 ? found[line - 1] : 0);
}
