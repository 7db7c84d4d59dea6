// Text invalid: how many bytes are no part of well-formed UTF-8; those from 80, less those of whole sequences.
//
//   text    uint8 [size]
//   counts  int32 [counts]   the number is added to [INVALID]
#include "text_common.cuh"

// The size of the well-formed sequence of several bytes that begins at `place`, or 0.
__device__ __forceinline__ int sequence(const unsigned char* text, int place, int size) {
    const int lead = text[place];
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const int all = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size - place < all) return 0;
    // the second byte's bounds keep out long spellings, surrogates, and what lies beyond U+10FFFF
    const int lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const int highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    const int second = text[place + 1];
    if (second < lowest || second > highest) return 0;
    for (int i = 2; i < all; ++i) {
        if (text[place + i] >> 6 != 2) return 0;
    }
    return all;
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_invalid(const unsigned char* __restrict__ text, int* __restrict__ counts, int size) {
    int invalid = 0, total;  // of a tile alone it may be negative, where a sequence reaches beyond it
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
        const int place = blockIdx.x * TILE + i * THREADS + threadIdx.x;
        if (place < size && text[place] >= 0x80) invalid += 1 - sequence(text, place, size);
    }
    sum_before(invalid, total);
    if (threadIdx.x == 0 && total != 0) atomicAdd(counts + INVALID, total);
}
