// Folded table: a product of words and taps as rows of a table, rounded once.
//
//   product  float32 [width, words, filters]         a word's value at each tap
//   lowest   float32 [width, filters]                read with TABLE_FIXED only, as folded_scale leaves it
//   scale    float32 [filters]                       the same
//   table    TYPE    [slices, words, width, SLICE]   written whole, zeros behind the filters; see folded_types.cuh
//
// One thread a value, THREADS to a block.
#include "common.cuh"
#include "folded_types.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

__device__ __forceinline__ Stored stored(float value, float lowest, float scale) {
#if TYPE == TABLE_FIXED
    return scale > 0.0f ? __float2uint_rn(fminf((value - lowest) / scale, MOST)) : 0;
#elif TYPE == TABLE_FP16
    return __float2half(value);
#else
    return value;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
folded_table(const float* __restrict__ product, const float* __restrict__ lowest, const float* __restrict__ scale,
             unsigned char* __restrict__ table, int words, int width, int filters) {
    const int slices = (filters + SLICE - 1) / SLICE;
    const long long place = global_thread();
    const long long row = place / SLICE;
    const long long word_of_slice = row / width;
    const int tap = row % width;
    const int word = word_of_slice % words;
    const int filter = word_of_slice / words * SLICE + place % SLICE;
    if (word_of_slice >= static_cast<long long>(slices) * words) return;
    const int at = tap * filters + filter;
    const bool there = filter < filters;
    const float value = there ? product[(static_cast<long long>(tap) * words + word) * filters + filter] : 0.0f;
    const bool fixed = TYPE == TABLE_FIXED && there;
    reinterpret_cast<Stored*>(table)[place] = stored(value, fixed ? lowest[at] : 0.0f, fixed ? scale[filter] : 0.0f);
}
