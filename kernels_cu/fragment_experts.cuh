// Tensor cores: gate-weighted sums over experts, whose values lie next to each other in a row of sums. Part of
// fragment_epilogue.cuh, which includes it where it has said what a place is.
#pragma once

#if EPILOGUE >= EPILOGUE_EXPERTS
__device__ __forceinline__ float finished(float total) {
    return EPILOGUE == EPILOGUE_EXPERTS_RELU ? rectified(total) : total;
}

#if EXPERTS == 4
// Two lanes hold a value's experts. They exchange sums: the even one then has all of row g, the odd one of row g + 8.
__device__ __forceinline__ float expert_total(const float (&sums)[4], const float (&weights)[4]) {
    const bool odd = threadIdx.x % 2;
    float mine[2], others[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        mine[i] = odd ? sums[i + 2] : sums[i];
        others[i] = __shfl_xor_sync(0xFFFFFFFFu, odd ? sums[i] : sums[i + 2], 1);
    }
    float total = weights[0] * (odd ? others[0] : mine[0]);
    total = fmaf(weights[1], odd ? others[1] : mine[1], total);
    total = fmaf(weights[2], odd ? mine[0] : others[0], total);
    return finished(fmaf(weights[3], odd ? mine[1] : others[1], total));
}

// The row whose values a lane has.
__device__ __forceinline__ int expert_row(const FragmentPlace& place) {
    return place.row + threadIdx.x % 2 * 8 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ void load_weights(float (&weights)[4], const FragmentPlace& place) {
    const int row = expert_row(place);
#pragma unroll
    for (int e = 0; e < 4; ++e) weights[e] = row < place.rows ? place.gate[row * 4 + e] : 0.0f;
}

// The value of column tile j.
__device__ __forceinline__ void store_total(float total, int j, const FragmentPlace& place) {
    const int row = expert_row(place), column = place.column + j * 8 + threadIdx.x % 4 / 2 * 4;
    if (row < place.rows && column < place.columns) store(place.row_of_y(row) + column / 4, place.y_low, total);
}

#ifdef GATHERS
// Of 16 values of a row one lane holds the even ones and the next but one the odd ones; afterwards the first holds the
// first eight of them, the other one the rest: a piece each.
__device__ __forceinline__ uint4 gather_eight(const unsigned (&pairs)[4]) {
    const bool upper = threadIdx.x & 2;
    unsigned even[2], odd[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned kept = upper ? pairs[i + 2] : pairs[i];
        const unsigned taken = __shfl_xor_sync(0xFFFFFFFFu, upper ? pairs[i] : pairs[i + 2], 2);
        even[i] = upper ? taken : kept;
        odd[i] = upper ? kept : taken;
    }
    return make_uint4(__byte_perm(even[0], odd[0], 0x5410), __byte_perm(even[0], odd[0], 0x7632),
                      __byte_perm(even[1], odd[1], 0x5410), __byte_perm(even[1], odd[1], 0x7632));
}

// A row's two lanes write 32 bytes: the values of column tile `first` and the next seven.
template <bool WHOLE>
__device__ __forceinline__ void store_expert_eight(const unsigned (&pairs)[4], int first, long long low,
                                                   const FragmentPlace& place) {
    const uint4 eight = gather_eight(pairs);
    const int row = expert_row(place), column = place.column / 4 + first * 2 + (threadIdx.x & 2) * 4;
    // asked for each piece, or the compiler makes so many at once that registers are spilled
    if (row < place.rows) store_eight<WHOLE>(place.row_of_y(row) + low, column, place.columns / 4, eight);
}

template <int NT>
__device__ __forceinline__ void store_experts_gathered(const float (&sums)[NT][4], const float (&weights)[4],
                                                       const FragmentPlace& place) {
#pragma unroll
    for (int first = 0; first < NT; first += 8) {
        unsigned pairs[WORDS][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned words[WORDS];
            words_of(words, expert_total(sums[first + 2 * i], weights), expert_total(sums[first + 2 * i + 1], weights));
#pragma unroll
            for (int w = 0; w < WORDS; ++w) pairs[w][i] = words[w];
        }
#pragma unroll
        for (int w = 0; w < WORDS; ++w) store_expert_eight<false>(pairs[w], first, w * place.y_low, place);
    }
}
#endif

template <int NT>
__device__ __forceinline__ void store_experts(const float (&sums)[NT][4], const FragmentPlace& place) {
    float weights[4];
    load_weights(weights, place);
#ifdef GATHERS
    if constexpr (NT % 8 == 0) {
        if (in_eights(place)) return store_experts_gathered(sums, weights, place);
    }
#endif
#pragma unroll
    for (int j = 0; j < NT; ++j) store_total(expert_total(sums[j], weights), j, place);
}
#elif EXPERTS == 2
template <int NT>
__device__ __forceinline__ void store_experts(const float (&sums)[NT][4], const FragmentPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
        if (row >= place.rows) continue;
        const float first = place.gate[row * 2], second = place.gate[row * 2 + 1];
        Y* const out = place.row_of_y(row);
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int column = place.column + j * 8 + threadIdx.x % 4 * 2;
            const float total = fmaf(second, sums[j][half * 2 + 1], first * sums[j][half * 2]);
            if (column < place.columns) store(out + column / 2, place.y_low, finished(total));
        }
    }
}
#else
template <int NT>
__device__ __forceinline__ void store_experts(float (&sums)[NT][4], const FragmentPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
        const float weight = row < place.rows ? place.gate[row] : 0.0f;
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            sums[j][half * 2] = finished(weight * sums[j][half * 2]);
            sums[j][half * 2 + 1] = finished(weight * sums[j][half * 2 + 1]);
        }
    }
    store_fragment<false>(sums, place);
}
#endif
#endif
