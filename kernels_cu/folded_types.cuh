// Folded tables: what their values are stored as, and how rows of them are added up and compared. A table holds, for
// every word, what the word adds to a window at each of its places: a row of filters for each tap.
//
// It lies in slices of SLICE filters, ROW_BYTES of a row: [slices, vocabulary, width, SLICE]. While all processors
// work on one slice, the level-1 cache of each holds the words that sentences are full of.
#pragma once

#include <cuda_fp16.h>

#define TABLE_FP32 0
#define TABLE_FP16 1
// Whole numbers of 16 bits: the value is the lowest of its tap and filter plus the number times the filter's scale.
// The scale is such that the numbers of a window never pass 16 bits together: two in a register are added as one, and
// exactly. Halves are rounded no less and cost eight times the instructions: made floats first, then added one by one.
#define TABLE_FIXED 2

#if !defined(TYPE) || !defined(ROW_BYTES)
#error "TYPE or ROW_BYTES not defined"
#endif

#if TYPE == TABLE_FP32
using Stored = float;
#elif TYPE == TABLE_FP16
using Stored = __half;
#else
using Stored = unsigned short;
#endif

constexpr int SLICE = ROW_BYTES / sizeof(Stored);
constexpr int VECTOR = 16 / sizeof(Stored);    // filters that a thread reads at once
constexpr float MOST = 65535.0f;               // that a window's numbers of TABLE_FIXED add up to
