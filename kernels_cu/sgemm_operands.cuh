// SGEMM: where A and B come from, and how their tiles get into shared memory.
#pragma once

#include "ptx.cuh"
#include "sgemm_tile.cuh"

#define ROWS_MATRIX 0   // a [rows, depth]
#define ROWS_WINDOWS 1  // a = x [tokens, dimension]; row m is the `depth` floats from x + starts[m] * dimension on
#define ROWS_IDS 2      // a = table [vocabulary, dimension]; row m is its rows ids[starts[m]], ids[starts[m] + 1], ...

// One thread's share of a block's tiles of A, in order of k. Rows past the last are read as the last one, so that no
// copy needs a condition; nothing is stored of them.
struct RowReader {
    const float* base;   // of the block's first row, at k
    int offset[A_ROWS];  // of each row from it: half of a pointer's registers, and one instruction an address
    const int* starts;   // of the block's rows
    const int* ids;
    const float* table;
    int first, last, lane, dimension;
    int token = 0, token_at = 0;  // with ids: the next one of each row, and the k at which it begins

    __device__ __forceinline__ RowReader(const float* a, const int* starts, const int* ids, long long block_row,
                                         int block_rows, int depth, int dimension)
        : base(a + threadIdx.x % 8), starts(starts + block_row), ids(ids), table(base), first(threadIdx.x / 8),
          last(block_rows - 1), lane(threadIdx.x % 8), dimension(dimension) {
#if ROWS == ROWS_MATRIX
        base += block_row * depth;
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) offset[i] = row(i) * depth;
#elif ROWS == ROWS_WINDOWS
        const int begin = this->starts[0];
        base += static_cast<long long>(begin) * dimension;
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) offset[i] = (this->starts[row(i)] - begin) * dimension;
#endif
    }

    __device__ __forceinline__ int row(int i) const { return min(first + i * A_APART, last); }

    // Copies the tile from k on to `to` [BK][PITCH]. With PART, what lies past `depth` is zero.
    template <bool PART>
    __device__ __forceinline__ void copy(float* to, int k, int depth) {
#if ROWS == ROWS_IDS
        if (k == token_at) find_token();
#endif
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < BK; j += 8) {
                const int bytes = !PART || k + lane + j < depth ? 4 : 0;
                ptx::cp_async_4(to + (lane + j) * PITCH + first + i * A_APART, base + offset[i] + j, bytes);
            }
        }
        base += BK;
    }

    // Each token's row begins at its own place in the table. BK divides `dimension`.
    __device__ __forceinline__ void find_token() {
        base = table;
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) offset[i] = ids[starts[row(i)] + token] * dimension;
        ++token;
        token_at += dimension;
    }
};

// The same of B. Quads past the last are read as the last one.
struct WeightReader {
    const float* at;
    int k_lane, quad, packed_row;

    __device__ __forceinline__ WeightReader(const float* packed, int packed_row, int block_column)
        : k_lane(threadIdx.x / B_QUADS), quad(threadIdx.x % B_QUADS * 4), packed_row(packed_row) {
        at = packed + static_cast<long long>(k_lane) * packed_row + min(block_column + quad, packed_row - 4);
    }

    // Copies the tile from k on to `to` [BK][BN].
    template <bool PART>
    __device__ __forceinline__ void copy(float* to, int k, int depth) {
#pragma unroll
        for (int i = 0; i < BK; i += B_APART) {
            const int bytes = !PART || k + k_lane + i < depth ? 16 : 0;
            ptx::cp_async_16(to + (k_lane + i) * BN + quad, at + static_cast<long long>(i) * packed_row, bytes);
        }
        at += static_cast<long long>(BK) * packed_row;
    }
};

// Both, into the stages of shared memory in turn.
struct Copies {
    RowReader a;
    WeightReader b;
    float* stages;
    int depth;
    int k = 0, stage = 0;  // of the next tile

    // One group of copies: a tile, or none when there are no more.
    __device__ __forceinline__ void next() {
        float* to = stages + stage;
        if (k + BK <= depth) {
            a.copy<false>(to, k, depth);
            b.copy<false>(to + BK * PITCH, k, depth);
        } else if (k < depth) {
            a.copy<true>(to, k, depth);
            b.copy<true>(to + BK * PITCH, k, depth);
        }
        ptx::cp_async_commit_group();
        k += BK;
        stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
    }
};
