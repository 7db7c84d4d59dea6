// WGMMA: where A and B come from, and how their tiles get into shared memory. One warpgroup does nothing else.
#pragma once

#include "wgmma_tile.cuh"

#define ROWS_MATRIX 0   // a [rows, a_row]
#define ROWS_WINDOWS 1  // a = x [tokens, dimension]; row m is the `depth` operands from x + starts[m] * dimension on
#define ROWS_IDS 2      // a = table [vocabulary, dimension]; row m is its rows ids[starts[m]], ids[starts[m] + 1], ...
#define ROWS_PACKED 3   // a [depth / BK, rows rounded up to 8, 128 bytes], exchanged like B

constexpr bool BULK = ROWS == ROWS_PACKED;          // else A comes in pieces of 16 bytes, by all threads
constexpr int A_ROWS = BULK ? 1 : BM / 16;          // that a thread copies a piece of
constexpr unsigned COMING = BULK ? 1 : 1 + 128;     // arrivals at a full stage's barrier, beside the bytes
constexpr unsigned LEAVING = GROUPS * 4 * CLUSTER;  // at an empty one's: every warp that multiplied
constexpr int B_SHARE = BN / CLUSTER;               // rows of B that a block brings to all of its cluster

// The stages in turn, and their barriers. `full`: all of a stage has come. `empty`: nobody reads it any more.
struct Stages {
    unsigned char* memory;
    unsigned long long *full, *empty;
    int stage = 0;
    unsigned phase = 0;

    __device__ __forceinline__ explicit Stages(unsigned char* memory)
        : memory(memory), full(reinterpret_cast<unsigned long long*>(memory + STAGES * STAGE)), empty(full + STAGES) {}

    __device__ __forceinline__ void begin() const {
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbarrier_init(full + i, COMING);
            ptx::mbarrier_init(empty + i, LEAVING);
        }
        ptx::fence_mbarrier_init();
    }
    __device__ __forceinline__ unsigned char* here() const { return memory + stage * STAGE; }
    __device__ __forceinline__ unsigned long long* full_here() const { return full + stage; }
    __device__ __forceinline__ unsigned long long* empty_here() const { return empty + stage; }
    __device__ __forceinline__ void wait_full() const {
        while (!ptx::mbarrier_try_wait_parity(full_here(), phase)) {}
    }
    __device__ __forceinline__ void wait_empty() const {
        while (!ptx::mbarrier_try_wait_parity(empty_here(), phase ^ 1)) {}
    }
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// How many of `count` rows from `row` on there are, of `most`.
__device__ __forceinline__ int rows_there(long long row, int count, long long most) {
    return static_cast<int>(max(0LL, min(static_cast<long long>(count), most - row)));
}

// One thread's share of the tiles of A, in order of k: of every 16th row a piece. Rows past the last are read as the
// last one. A block's rows lie less than 2^32 bytes apart, a table has less than 2^31 operands.
struct RowReader {
    const unsigned char* base;  // at k
    const unsigned char* const a;
    const int* const ids;
    const long long low;
    const int dimension;
    unsigned offset[A_ROWS];
    int token[ROWS == ROWS_IDS ? A_ROWS : 1];  // the next one of each row
    int place;                                 // of the first piece in the tile
    int in_word = 0;                           // steps until the next word
    long long padded;
    int there;  // rows of a packed operand

    __device__ __forceinline__ RowReader(const unsigned char* a, long long low, const int* starts, const int* ids,
                                         long long block_row, long long rows, int a_row, int dimension)
        : base(a + threadIdx.x % 8 * 16), a(a), ids(ids), low(low), dimension(dimension) {
        const int first = threadIdx.x / 8;
        place = first * ROW + (threadIdx.x ^ first) % 8 * 16;
#if ROWS == ROWS_PACKED
        padded = (rows + 7) / 8 * 8;
        there = rows_there(block_row, BM, padded);
        base = a + block_row * ROW;
#else
        const long long last = rows - 1, top = min(block_row, last);
#if ROWS == ROWS_MATRIX
        base += top * a_row * SIZE;
#elif ROWS == ROWS_WINDOWS
        const int begin = starts[top];
        base += static_cast<long long>(begin) * dimension * SIZE;
#endif
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            const long long row = min(block_row + first + i * 16, last);
#if ROWS == ROWS_MATRIX
            offset[i] = static_cast<unsigned>(row - top) * a_row * SIZE;
#elif ROWS == ROWS_WINDOWS
            offset[i] = static_cast<unsigned>(starts[row] - begin) * dimension * SIZE;
#else
            token[i] = starts[row];
#endif
        }
#endif
    }

    // Bytes of a step that no thread copies.
    __device__ __forceinline__ unsigned bulk_bytes() const { return BULK ? HALVES * ROW * there : 0; }

    // Before a step: with ids, finds the rows of the next words.
    __device__ __forceinline__ void prepare() {
#if ROWS == ROWS_IDS
        if (--in_word >= 0) return;
        in_word = dimension / BK - 1;
        base = a + threadIdx.x % 8 * 16;
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) offset[i] = static_cast<unsigned>(ids[token[i]++]) * dimension;
#endif
    }

    // Copies the tile of a step into a stage; its barrier hears of it.
    __device__ __forceinline__ void copy(const Stages& stages, int step) {
        unsigned char* const to = stages.here();
#if ROWS == ROWS_PACKED
        if (threadIdx.x || !there) return;
        const unsigned char* const from = base + step * padded * ROW;
        ptx::cp_async_bulk(to, from, there * ROW, stages.full_here());
        if (SPLIT) ptx::cp_async_bulk(to + A_TILE, from + low, there * ROW, stages.full_here());
#else
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            const unsigned char* const from =
                base + static_cast<unsigned long long>(offset[i]) * (ROWS == ROWS_IDS ? SIZE : 1);
            ptx::cp_async_16(to + place + i * 16 * ROW, from);
            if (SPLIT) ptx::cp_async_16(to + A_TILE + place + i * 16 * ROW, from + low);
        }
        base += ROW;
        ptx::cp_async_mbarrier_arrive_noinc(stages.full_here());
#endif
    }
};

// The tiles of B lie ready, each in one piece. What lies past the last row stays as it is, and nothing is stored of it.
struct WeightReader {
    const unsigned char* packed;
    long long low;
    int packed_row;

    // Bytes of a step for each block.
    __device__ __forceinline__ unsigned bytes(int column) const {
        return HALVES * ROW * rows_there(column, BN, packed_row);
    }

    // Copies the tile of a step into a stage, or this block's share of it into those of all blocks.
    __device__ __forceinline__ void copy(const Stages& stages, int step, int column) const {
        const unsigned rank = CLUSTER > 1 ? ptx::cluster_rank() : 0;
        const int first = static_cast<int>(rank) * B_SHARE;
        const int there = rows_there(column + first, B_SHARE, packed_row);
        if (!there) return;
        const unsigned char* const from = packed + (static_cast<long long>(step) * packed_row + column + first) * ROW;
        unsigned char* const to = stages.here() + HALVES * A_TILE + first * ROW;
#pragma unroll
        for (int half = 0; half < HALVES; ++half) {
#if CLUSTER > 1
            ptx::cp_async_bulk_multicast(to + half * B_TILE, from + half * low, there * ROW, stages.full_here(),
                                         (1u << CLUSTER) - 1);
#else
            ptx::cp_async_bulk(to + half * B_TILE, from + half * low, there * ROW, stages.full_here());
#endif
        }
    }
};
