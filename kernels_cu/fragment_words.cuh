// Tensor cores: sums that become words of two 16-bit values each, in registers that held their bias. Part of
// fragment_held.cuh. Without experts column tile j has two words, of row g and of row g + 8.
#pragma once

// Both values of a word, as far as they lie before column `end`; the second one `apart` columns after the first.
__device__ __forceinline__ void store_word(Y* row, int column, int apart, int end, unsigned word) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned short bits = word >> (i * 16) & 0xFFFFu;
        if (column + i * apart < end) reinterpret_cast<unsigned short*>(row)[column + i * apart] = bits;
    }
}

#if EPILOGUE <= EPILOGUE_RELU
template <int NT>
__device__ __forceinline__ void words_of_sums(unsigned (&pairs)[NT][2], const float (&sums)[NT][4], const float (&)[4],
                                              float scale) {
#pragma unroll
    for (int j = 0; j < NT; ++j) {
        float values[4];
        add_bias(values, sums[j], pairs[j], scale);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned words[WORDS];
            words_of(words, values[half * 2], values[half * 2 + 1]);
            pairs[j][half] = words[0];
        }
    }
}

// ReLU is left to the stores, which nothing waits for.
__device__ __forceinline__ unsigned stored_word(unsigned word) {
    if (EPILOGUE != EPILOGUE_RELU) return word;
    const Pair larger = __hmax2_nan(*reinterpret_cast<const Pair*>(&word), Pair{});
    return *reinterpret_cast<const unsigned*>(&larger);
}

// Those of column tile `first` and the next three, in pieces of 16 bytes.
template <bool WHOLE, int NT>
__device__ __forceinline__ void store_words(const unsigned (&pairs)[NT][2], int first, const FragmentPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        unsigned four[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = stored_word(pairs[first + i][half]);
        store_four<WHOLE>(four, half, first, 0, place);
    }
}

template <int NT>
__device__ __forceinline__ void store_singly(const unsigned (&pairs)[NT][2], const FragmentPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
        if (row >= place.rows) continue;
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int column = place.column + j * 8 + threadIdx.x % 4 * 2;
            store_word(place.row_of_y(row), column, 1, place.columns, stored_word(pairs[j][half]));
        }
    }
}
#else
// Eight column tiles have four words of a lane's row, at the first four of them. Where that of tiles j and j + 1 lies:
__device__ __forceinline__ constexpr int word_at(int j) { return j / 8 * 8 + j % 8 / 2; }

template <int NT>
__device__ __forceinline__ void words_of_sums(unsigned (&pairs)[NT][2], const float (&sums)[NT][4],
                                              const float (&weights)[4], float scale) {
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        float first[4], second[4];
        add_bias(first, sums[j], pairs[j], scale);
        add_bias(second, sums[j + 1], pairs[j + 1], scale);
        unsigned words[WORDS];
        words_of(words, expert_total(first, weights), expert_total(second, weights));
        pairs[word_at(j)][0] = words[0];
    }
}

template <bool WHOLE, int NT>
__device__ __forceinline__ void store_words(const unsigned (&pairs)[NT][2], int first, const FragmentPlace& place) {
    if (first % 8) return;
    const unsigned four[4] = {pairs[first][0], pairs[first + 1][0], pairs[first + 2][0], pairs[first + 3][0]};
    store_expert_eight<WHOLE>(four, first, 0, place);
}

template <int NT>
__device__ __forceinline__ void store_singly(const unsigned (&pairs)[NT][2], const FragmentPlace& place) {
    const int row = expert_row(place);
    if (row >= place.rows) return;
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        const int column = place.column / 4 + j * 2 + threadIdx.x % 4 / 2;
        store_word(place.row_of_y(row), column, 2, place.columns / 4, pairs[word_at(j)][0]);
    }
}
#endif
