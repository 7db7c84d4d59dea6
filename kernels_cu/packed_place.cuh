// Tensor cores: packed operands, [k / STEP, rows rounded up to 8, 128 bytes], so that a tile lies in one place. The
// eight 16-byte pieces of a row are exchanged, piece p of row n lying at p ^ n % 8: eight rows' pieces p then lie in
// all 32 banks of shared memory.
#pragma once

#include "tensor_types.cuh"

constexpr int STEP = 128 / sizeof(Y);
constexpr int PIECE = 16 / sizeof(Y);

__device__ __forceinline__ long long packed_place(long long row, int k, long long rows) {
    const int piece = k % STEP / PIECE ^ static_cast<int>(row % 8);
    return (k / STEP * rows + row) * STEP + piece * PIECE + k % PIECE;
}
