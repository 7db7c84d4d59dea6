// WGMMA: what a tile is. A block makes BM x BN sums in steps of 128 bytes along k; each of GROUPS warpgroups TALL times
// 64 x BN of them. CLUSTER blocks with tiles below each other share those of B.
#pragma once

#include "ptx.cuh"

#if !defined(TYPE) || !defined(SPLIT) || !defined(PROMOTE)
#error "TYPE, SPLIT or PROMOTE not defined"
#endif
#if !defined(GROUPS) || !defined(TALL) || !defined(BN) || !defined(STAGES) || !defined(CLUSTER)
#error "a tile is GROUPS, TALL, BN, STAGES and CLUSTER"
#endif

constexpr int BM = GROUPS * TALL * 64;
constexpr int THREADS = (GROUPS + 1) * 128;  // the first warpgroup brings what the others multiply

constexpr int ROW = 128;                   // bytes of a tile's row
constexpr int SIZE = TYPE == 2 ? 4 : 2;    // bytes of an operand
constexpr int BK = ROW / SIZE;             // operands of a step
constexpr int HALVES = SPLIT ? 2 : 1;      // tiles of A, and of B, in a stage: the high halves, then the low ones
constexpr int A_TILE = BM * ROW;
constexpr int B_TILE = BN * ROW;
constexpr int STAGE = HALVES * (A_TILE + B_TILE);

// Registers of a thread: all start with as many; then the bringers give some of theirs to the multipliers.
constexpr int BRINGS = BM > 128 ? 56 : 40;
constexpr int MULTIPLIES = GROUPS == 3 ? 152 : BM > 128 ? 224 : 232;

static_assert(BN % 64 == 0 && BN <= 256 && STAGES >= 2, "whole products, and a step ahead");
static_assert(PROMOTE % BK == 0, "whole steps");

// sums [64, BN] of a warpgroup = a [64, 32 bytes] times b [BN, 32 bytes] transposed, plus sums if `add`.
#define WGMMA(n, step, type) ptx::wgmma_m64n##n##step##_##type(sums, a, b, add)
__device__ __forceinline__ void multiply(float (&sums)[BN / 2], unsigned long long a, unsigned long long b, int add) {
#if TYPE == 0 && BN == 64
    WGMMA(64, k16, f16);
#elif TYPE == 0 && BN == 128
    WGMMA(128, k16, f16);
#elif TYPE == 0 && BN == 192
    WGMMA(192, k16, f16);
#elif TYPE == 0
    WGMMA(256, k16, f16);
#elif TYPE == 1 && BN == 64
    WGMMA(64, k16, bf16);
#elif TYPE == 1 && BN == 128
    WGMMA(128, k16, bf16);
#elif TYPE == 1 && BN == 192
    WGMMA(192, k16, bf16);
#elif TYPE == 1
    WGMMA(256, k16, bf16);
#elif BN == 64
    WGMMA(64, k8, tf32);
#elif BN == 128
    WGMMA(128, k8, tf32);
#elif BN == 192
    WGMMA(192, k8, tf32);
#else
    WGMMA(256, k8, tf32);
#endif
}
#undef WGMMA
