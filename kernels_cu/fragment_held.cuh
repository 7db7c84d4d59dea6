// Tensor cores: registers of a warp that makes tile after tile, and what passes through them while it multiplies.
//
// A pair of registers belongs to eight columns. At a tile's end they take its values where these are HELD: of 16 bits, stored
// plainly, with ReLU or of four experts, one tile of 64 rows a group. In the first steps of the next tile they are stored,
// and its bias takes their place: of columns 2t and 2t + 1. So a tile's end waits for no memory. All other values are stored
// at once, and so are held ones that a ragged tile has or that cannot be written in pieces of 16 bytes.
#pragma once

#include "fragment_epilogue.cuh"

// The values of a column tile's sums.
__device__ __forceinline__ void add_bias(float (&values)[4], const float (&sums)[4], const unsigned (&bias)[2],
                                         float scale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = fmaf(scale, sums[i], __uint_as_float(bias[i % 2]));
}

#if (OUTPUT == OUTPUT_FP16 || OUTPUT == OUTPUT_BF16) && (EPILOGUE <= EPILOGUE_RELU || EXPERTS == 4) && TALL == 1
#include "fragment_words.cuh"
#define HELD
#endif

template <int NT>
struct HeldPairs {
    static constexpr int PARTS = NT / 4;  // of four column tiles

    unsigned pairs[NT][2] = {};
    float weights[4];        // of the experts
    FragmentPlace before{};  // of the values: without rows if none are held

    // While a tile is multiplied: stores a part of the tile before, and loads as much of the bias. All parts in order.
    __device__ __forceinline__ void exchange(int part, const FragmentPlace& place) {
#ifdef HELD
        store_words<true>(pairs, part * 4, before);
#if EXPERTS == 4
        if (part == 0) load_weights(weights, place);
#endif
#endif
        if (place.whole(NT * 8)) {
            load_bias<true>(part * 4, place);
        } else {
            load_bias<false>(part * 4, place);
        }
    }

    // After the last tile.
    __device__ __forceinline__ void store_rest() const {
#ifdef HELD
        store_all<true>(before);
#endif
    }

    // As the other `finish`, or holds the values until the next tile. It changes the sums.
    __device__ __forceinline__ void finish(float (&sums)[NT][4], const FragmentPlace& place) {
#ifdef HELD
        words_of_sums(pairs, sums, weights, place.scale);
        before.rows = 0;
        if (!in_eights(place)) return store_singly(pairs, place);
        if (!place.whole(NT * 8)) return store_all<false>(place);
        before = place;
        before.y += place.column / EXPERTS;
        before.column = 0;  // is in y
#elif EPILOGUE >= EPILOGUE_EXPERTS && EXPERTS == 4 && !defined(GATHERS)
        // Changed in place and shuffled, sums become integers to the compiler, which then waits for them in every step.
        load_weights(weights, place);
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            float values[4];
            add_bias(values, sums[j], pairs[j], place.scale);
            store_total(expert_total(values, weights), j, place);
        }
#else
#pragma unroll
        for (int j = 0; j < NT; ++j) add_bias(sums[j], sums[j], pairs[j], place.scale);
        if (place.whole(NT * 8)) {
            store_values<true>(sums, place);
        } else {
            store_values<false>(sums, place);
        }
#endif
    }

private:
#ifdef HELD
    template <bool WHOLE>
    __device__ __forceinline__ void store_all(const FragmentPlace& place) const {
#pragma unroll
        for (int first = 0; first < NT; first += 4) store_words<WHOLE>(pairs, first, place);
    }
#endif

    template <bool WHOLE>
    __device__ __forceinline__ void load_bias(int first, const FragmentPlace& place) {
#pragma unroll
        for (int j = first; j < first + 4; ++j) {
            const float2 bias = bias_at<WHOLE>(place.column + j * 8 + threadIdx.x % 4 * 2, place);
            pairs[j][0] = __float_as_uint(bias.x);
            pairs[j][1] = __float_as_uint(bias.y);
        }
    }
};
