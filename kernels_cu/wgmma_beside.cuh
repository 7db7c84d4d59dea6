// WGMMA: what the end of a tile reads beside its sums. It comes into shared memory while they are made.
#pragma once

#include "fragment_epilogue.cuh"
#include "wgmma_tile.cuh"

// A warp brings what it will read itself: a bias of its own for each of BN columns, gates or owners of its rows in the
// block. Four values are kept free for each row.
struct Beside {
    float* const bias;
    float* const gate;  // [BM, EXPERTS]
    int* const owners;  // [BM], in the place of the gate: no epilogue reads both

    __device__ __forceinline__ Beside(unsigned char* memory, int warp)
        : bias(reinterpret_cast<float*>(memory) + warp * BN),
          gate(reinterpret_cast<float*>(memory) + GROUPS * 4 * BN),
          owners(reinterpret_cast<int*>(gate)) {}

    // Begins to copy the bias, of which so much is there.
    __device__ __forceinline__ void bring_bias(const float* from, int there) const {
        if (BIAS) bring<BN>(bias, from, there);
    }

    // Begins to copy what belongs to 16 rows of the block, of which so many are there; the block's own are those from
    // `block_row` on.
    __device__ __forceinline__ void bring_rows(const float* gates, const int* all_owners, long long block_row, int row,
                                               int there) const {
        if (EPILOGUE >= EPILOGUE_EXPERTS) {
            bring<16 * EXPERTS>(gate + row * EXPERTS, gates + (block_row + row) * EXPERTS, there * EXPERTS);
        }
        if (EPILOGUE == EPILOGUE_GETMAX) bring<16>(owners + row, all_owners + block_row + row, there);
    }

    // Waits until all of it is there.
    __device__ __forceinline__ void wait() const {
        ptx::cp_async_commit_group();
        ptx::cp_async_wait_group<0>();
        __syncwarp();
    }

private:
    // Copies COUNT words, zeros in the place of those that are not there.
    template <int COUNT>
    __device__ __forceinline__ static void bring(void* to, const void* from, int there) {
#pragma unroll
        for (int first = 0; first < COUNT; first += 32) {
            const int i = first + threadIdx.x % 32, bytes = i < there ? 4 : 0;
            if (COUNT % 32 == 0 || i < COUNT) {
                ptx::cp_async_4(static_cast<int*>(to) + i, static_cast<const int*>(from) + (bytes ? i : 0), bytes);
            }
        }
    }
};
