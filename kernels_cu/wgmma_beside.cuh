// WGMMA: what weighs the experts' outputs, bias and gate, comes into shared memory while a tile is multiplied. Each lane
// would read much of both at the tile's end; other epilogues read so little that this takes longer (docs/ladder.md).
#pragma once

#include "fragment_epilogue.cuh"
#include "wgmma_tile.cuh"

constexpr bool BESIDE = EPILOGUE >= EPILOGUE_EXPERTS;

// A warp brings what it will read itself: a bias of its own for each of BN columns, the gate of its rows in the block.
struct Beside {
    float* const bias;
    float* const gate;  // [BM, EXPERTS]

    __device__ __forceinline__ Beside(unsigned char* memory, int warp)
        : bias(reinterpret_cast<float*>(memory) + warp * BN), gate(reinterpret_cast<float*>(memory) + GROUPS * 4 * BN) {}

    // Begins to copy the bias, of which so much is there, once all lanes have read the last one.
    __device__ __forceinline__ void bring_bias(const float* from, int there) const {
        __syncwarp();
        bring<BN>(bias, from, there);
    }

    // Begins to copy the gate of 16 rows of the block, of which so many are there.
    __device__ __forceinline__ void bring_gate(const float* from, int row, int there) const {
        bring<16 * EXPERTS>(gate + row * EXPERTS, from, there * EXPERTS);
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
    __device__ __forceinline__ static void bring(float* to, const float* from, int there) {
#pragma unroll
        for (int first = 0; first < COUNT; first += 32) {
            const int i = first + threadIdx.x % 32, bytes = i < there ? 4 : 0;
            if (COUNT % 32 == 0 || i < COUNT) ptx::cp_async_4(to + i, from + (bytes ? i : 0), bytes);
        }
    }
};
