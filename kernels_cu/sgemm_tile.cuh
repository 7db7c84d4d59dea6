// SGEMM: what a tile is. A block makes BM x BN sums in steps of BK along k, a thread TM x TN of them in quads of 4 x 4.
#pragma once

#if !defined(BM) || !defined(BN) || !defined(BK) || !defined(TM) || !defined(TN) || !defined(STAGES)
#error "a tile is BM, BN, BK, TM, TN and STAGES"
#endif

constexpr int THREADS = (BM / TM) * (BN / TN);

// A warp is 8 x 4 threads, or 4 x 8 if theirs are tall tiles. Their quads interleave, so that it reads neighbours.
constexpr int DOWN = TM > TN ? 4 : 8;
constexpr int ACROSS = 32 / DOWN;
constexpr int ROW_STEP = DOWN * 4;  // between the quads of a thread
constexpr int COLUMN_STEP = ACROSS * 4;
constexpr int WARPS_ACROSS = BN / (ACROSS * TN);

// What a thread copies of a tile of A: one k of eight, every A_APART-th row. Of B: a quad of every B_APART-th k.
constexpr int A_APART = THREADS / 8;
constexpr int A_ROWS = BM / A_APART;
constexpr int B_QUADS = BN / 4;
constexpr int B_APART = THREADS / B_QUADS;

// In shared memory both lie k-major, B after A.
constexpr int PITCH = BM + 4;  // of A: eight k of four rows, which a warp writes at once, lie in 32 banks
constexpr int STAGE = BK * (PITCH + BN);

static_assert(BM % (DOWN * TM) == 0 && BN % (ACROSS * TN) == 0 && TM % 4 == 0 && TN % 4 == 0, "whole warps, quads");
static_assert(BM % A_APART == 0 && THREADS % B_QUADS == 0 && BK % B_APART == 0, "each thread copies as much");
static_assert(BK % 8 == 0 && STAGES >= 2, "eights of k, and a step ahead");
