// MMA: what a tile is. A block makes BM x BN sums in steps of 128 bytes along k, a warp WM x WN of them.
#pragma once

#if !defined(TYPE) || !defined(SPLIT) || !defined(PROMOTE)
#error "operands are TYPE, SPLIT and PROMOTE"
#endif
#if !defined(BM) || !defined(BN) || !defined(WM) || !defined(WN) || !defined(STAGES)
#error "a tile is BM, BN, WM, WN and STAGES"
#endif

constexpr int WARPS_ACROSS = BN / WN;
constexpr int THREADS = BM / WM * WARPS_ACROSS * 32;
constexpr int MT = WM / 16;  // products of a warp are of 16 rows and 8 columns
constexpr int NT = WN / 8;

// Memory is counted in pieces of 16 bytes: eight to a row of a tile, two of them to a product's k.
constexpr int PIECE = TYPE == 2 ? 4 : 8;  // operands
constexpr int BK = 8 * PIECE;
constexpr int HALVES = SPLIT ? 2 : 1;  // tiles of A, and of B, in a stage: the high halves, then the low ones
constexpr int A_TILE = BM * 8;
constexpr int B_TILE = BN * 8;
constexpr int STAGE = HALVES * (A_TILE + B_TILE);

// What a thread copies of a tile: one piece of every APART-th row.
constexpr int APART = THREADS / 8;
constexpr int A_ROWS = BM / APART;
constexpr int B_ROWS = BN / APART;

constexpr int SUMS = MT * NT * 4 * (PROMOTE ? 2 : 1);
constexpr int REGISTERS = SUMS + 2 * (MT * 4 + NT * 2) + A_ROWS + B_ROWS + 40;  // of a thread: about
constexpr int FITTING = 65536 / REGISTERS / THREADS;
constexpr int RESIDENT = FITTING > 1 ? FITTING : 1;  // blocks that a processor shall hold

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0, "whole warps, whole products");
static_assert(THREADS % 64 == 0 && BM % APART == 0 && BN % APART == 0, "each thread copies as much, of rows 8 apart");
static_assert(PROMOTE % BK == 0 && STAGES >= 2, "whole steps, and one ahead");
