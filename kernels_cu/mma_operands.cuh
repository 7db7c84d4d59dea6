// MMA: where A and B come from, and how their tiles get into shared memory. There as in `packed` the pieces of a row
// are exchanged: piece p of row r lies at p ^ r % 8. Eight rows' pieces p, which a warp reads at once, fill 32 banks.
#pragma once

#include "mma_tile.cuh"
#include "ptx.cuh"

#define ROWS_MATRIX 0   // a [rows, a_row]
#define ROWS_WINDOWS 1  // a = x [tokens, dimension]; row m is the `depth` operands from x + starts[m] * dimension on
#define ROWS_IDS 2      // a = table [vocabulary, dimension]; row m is its rows ids[starts[m]], ids[starts[m] + 1], ...

// One thread's share of a block's tiles of A, in order of k. Rows past the last are read as the last one, so that no
// copy needs a condition; nothing is stored of them. Lengths and distances are in pieces.
struct RowReader {
    const uint4* base;   // of the block's first row, at k
    long long low;       // from high halves to low ones
    int offset[A_ROWS];  // of each row from it
    int place;           // in the tile
#if ROWS == ROWS_IDS
    const uint4* table;
    const int* ids;
    int begin[A_ROWS], next_id[A_ROWS];  // each row's first token; the id of the next one
    int token = 0, tokens, left = 0;     // next_id's number in its row, and how many there are; pieces until then
    int dimension;
#endif

    __device__ __forceinline__ RowReader(const uint4* a, long long low, const int* starts, const int* ids,
                                         long long block_row, int block_rows, int depth, int a_row, int dimension)
        : base(a + threadIdx.x % 8), low(low) {
        const int first = threadIdx.x / 8, last = block_rows - 1;
        place = first * 8 + (threadIdx.x ^ first) % 8;
#if ROWS == ROWS_MATRIX
        base += block_row * a_row;
#else
        starts += block_row;
#endif
#if ROWS == ROWS_WINDOWS
        base += static_cast<long long>(starts[0]) * dimension;
#elif ROWS == ROWS_IDS
        table = base;
        this->ids = ids;
        this->dimension = dimension;
        tokens = depth / dimension;
#endif
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            const int row = min(first + i * APART, last);
#if ROWS == ROWS_MATRIX
            offset[i] = row * a_row;
#elif ROWS == ROWS_WINDOWS
            offset[i] = (starts[row] - starts[0]) * dimension;
#else
            begin[i] = starts[row];
            next_id[i] = ids[begin[i]];
#endif
        }
    }

    // Copies the next tile to `to`.
    __device__ __forceinline__ void copy(uint4* to) {
#if ROWS == ROWS_IDS
        if (left == 0) find_token();
        left -= 8;
#endif
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            const uint4* const from = base + offset[i];
            ptx::cp_async_16(to + place + i * APART * 8, from);
            if (SPLIT) ptx::cp_async_16(to + A_TILE + place + i * APART * 8, from + low);
        }
        base += 8;
    }

#if ROWS == ROWS_IDS
    // Each token's row begins at its own place in the table. The ids of the next ones are on their way meanwhile.
    __device__ __forceinline__ void find_token() {
        base = table;
        left = dimension;
        token = min(token + 1, tokens - 1);
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            offset[i] = next_id[i] * dimension;
            next_id[i] = ids[begin[i] + token];
        }
    }
#endif
};

// The same of B, whose tiles lie there as they are wanted. Rows past the last are read as one of the first eight.
struct WeightReader {
    const uint4* base;  // at k
    long long low;
    int offset[B_ROWS];
    int step;  // to the next k

    __device__ __forceinline__ WeightReader(const uint4* packed, long long low, int packed_row, int block_column)
        : base(packed + threadIdx.x % 8), low(low), step(packed_row * 8) {
#pragma unroll
        for (int i = 0; i < B_ROWS; ++i) {
            const int row = block_column + threadIdx.x / 8 + i * APART;
            offset[i] = (row < packed_row ? row : row % 8) * 8;
        }
    }

    __device__ __forceinline__ void copy(uint4* to) {
#pragma unroll
        for (int i = 0; i < B_ROWS; ++i) {
            const uint4* const from = base + offset[i];
            ptx::cp_async_16(to + threadIdx.x + i * THREADS, from);
            if (SPLIT) ptx::cp_async_16(to + B_TILE + threadIdx.x + i * THREADS, from + low);
        }
        base += step;
    }
};

// Both, into the stages of shared memory in turn.
struct Copies {
    RowReader a;
    WeightReader b;
    uint4* stages;
    int left;       // steps to come
    int stage = 0;  // of the next one

    // One group of copies: a step, or nothing when there are no more.
    __device__ __forceinline__ void next() {
        if (left > 0) {
            a.copy(stages + stage);
            b.copy(stages + stage + HALVES * A_TILE);
        }
        ptx::cp_async_commit_group();
        --left;
        stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
    }
};
