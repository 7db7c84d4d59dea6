// Tensor cores: what becomes of a warp's sums, 16 rows and NT times 8 columns of them at a time.
//
// With g = lane / 4 and t = lane % 4, a lane holds of each 8 columns: rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t,
// 2t + 1. The value of a sum is scale * sum + bias. All lanes of the warp call `finish` together.
#pragma once

#include "largest.cuh"
#include "tensor_types.cuh"

#define EPILOGUE_STORE 0         // y[m, column + n] = value
#define EPILOGUE_RELU 1          // y[m, column + n] = max(value, 0); a NaN stays a NaN
#define EPILOGUE_GETMAX 2        // y[owners[m], column + n] = the largest of these over m, and of what was there
#define EPILOGUE_RESIDUAL 3      // y[m, column + n] = max(value, 0) + a[m, n], for rows of as many values as columns
#define EPILOGUE_EXPERTS 4       // n = hidden * EXPERTS + e: y[m, column + hidden] = sum_e gate[m, e] * value
#define EPILOGUE_EXPERTS_RELU 5  // the same of max(sum_e .., 0)

#if !defined(EPILOGUE) || !defined(BIAS) || !defined(EXPERTS) || !defined(TYPE) || !defined(SPLIT)
#error "EPILOGUE, BIAS, EXPERTS, TYPE or SPLIT not defined"
#endif

#if TYPE == 0
using Operand = __half;
using Operands = __half2;
#elif TYPE == 1
using Operand = __nv_bfloat16;
using Operands = __nv_bfloat162;
#else
using Operand = float;
using Operands = float2;
#endif

static_assert(EPILOGUE != EPILOGUE_GETMAX || OUTPUT == OUTPUT_FP32, "the largest are found among floats");
static_assert(EXPERTS == 1 || EXPERTS == 2 || EXPERTS == 4, "two lanes hold all experts of a value");

// Where the sums belong. y, x, gate and owners are those of the block's first row; with EPILOGUE_GETMAX y is all of the
// features, whose rows the owners are.
struct FragmentPlace {
    int row, column;    // of the first sum: the row in the block, a multiple of 8 among all columns
    int rows, columns;  // where the block's rows and all columns end
    Y* y;               // from `column` of the output on
    int stride;         // the length of a row of y
    long long y_low;    // from a value's high half to its low one
    const Operand* x;   // what was multiplied; read with EPILOGUE_RESIDUAL only
    int x_row;          // the length of a row of x
    long long x_low;    // as y_low, with SPLIT
    float scale;
    const float* bias;
    const float* gate;
    const int* owners;

    __device__ __forceinline__ Y* row_of_y(int m) const { return y + static_cast<long long>(m) * stride; }

    // Whether two neighbours, the first in an even column, can be written at once.
    __device__ __forceinline__ bool paired() const {
        const bool low = OUTPUT != OUTPUT_SPLIT || y_low % 2 == 0;
        return low && stride % 2 == 0 && reinterpret_cast<unsigned long long>(y) % sizeof(Pair) == 0;
    }

    // Whether all of so many columns are there and their bias can be read in pairs: then nothing is asked for each one,
    // and many loads are under way at once.
    __device__ __forceinline__ bool whole(int width) const {
        const bool paired = !BIAS || reinterpret_cast<unsigned long long>(bias) % sizeof(float2) == 0;
        return paired && column + width <= columns;
    }
};

template <bool WHOLE>
__device__ __forceinline__ float2 bias_at(int column, const FragmentPlace& place) {
    if (!BIAS) return make_float2(0.0f, 0.0f);
    if (WHOLE) return *reinterpret_cast<const float2*>(place.bias + column);
    return make_float2(column < place.columns ? place.bias[column] : 0.0f,
                       column + 1 < place.columns ? place.bias[column + 1] : 0.0f);
}

template <bool WHOLE, int NT>
__device__ __forceinline__ void scale_and_bias(float (&sums)[NT][4], const FragmentPlace& place) {
#pragma unroll
    for (int j = 0; j < NT; ++j) {
        const float2 bias = bias_at<WHOLE>(place.column + j * 8 + threadIdx.x % 4 * 2, place);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] = fmaf(place.scale, sums[j][i], i % 2 ? bias.y : bias.x);
    }
}

#if OUTPUT == OUTPUT_FP16 || OUTPUT == OUTPUT_BF16 || OUTPUT == OUTPUT_SPLIT
#define GATHERS

// The four lanes of a row hold pairs of four column tiles each; afterwards lane t holds those of tile t, in order.
__device__ __forceinline__ void gather_tile(unsigned (&pairs)[4]) {
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
        const bool upper = threadIdx.x & apart;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & apart) continue;
            const unsigned first = pairs[i], second = pairs[i | apart];
            const unsigned taken = __shfl_xor_sync(0xFFFFFFFFu, upper ? first : second, apart);
            pairs[i] = upper ? taken : first;
            pairs[i | apart] = upper ? second : taken;
        }
    }
}

// Whether eight neighbours, the first in a column that is a multiple of eight, can be written at once.
__device__ __forceinline__ bool in_eights(const FragmentPlace& place) {
    const bool low = OUTPUT != OUTPUT_SPLIT || place.y_low % 8 == 0;
    return low && place.stride % 8 == 0 && reinterpret_cast<unsigned long long>(place.y) % 16 == 0;
}

// Eight neighbours of a row from `column` on, or those of them before column `end`.
template <bool WHOLE>
__device__ __forceinline__ void store_eight(Y* row, int column, int end, const uint4& eight) {
    if (WHOLE || column + 7 < end) {
        *reinterpret_cast<uint4*>(row + column) = eight;
        return;
    }
    const unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned short bits = pairs[i / 2] >> (i % 2 * 16) & 0xFFFFu;
        if (column + i < end) reinterpret_cast<unsigned short*>(row + column)[i] = bits;
    }
}

// A row's four lanes write 64 bytes in one piece: their pairs of column tile `first` and the next three. `half` is 0 for
// row g, 1 for row g + 8; `low` leads to the half of the values that is stored.
template <bool WHOLE>
__device__ __forceinline__ void store_four(unsigned (&pairs)[4], int half, int first, long long low,
                                           const FragmentPlace& place) {
    gather_tile(pairs);
    const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
    if (row >= place.rows) return;
    const int column = place.column + (first + threadIdx.x % 4) * 8;
    const uint4 eight = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    store_eight<WHOLE>(place.row_of_y(row) + low, column, place.columns, eight);
}

template <bool WHOLE, int NT>
__device__ __forceinline__ void store_gathered(const float (&sums)[NT][4], const FragmentPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int first = 0; first < NT; first += 4) {
            unsigned pairs[WORDS][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned words[WORDS];
                words_of(words, sums[first + i][half * 2], sums[first + i][half * 2 + 1]);
#pragma unroll
                for (int w = 0; w < WORDS; ++w) pairs[w][i] = words[w];
            }
#pragma unroll
            for (int w = 0; w < WORDS; ++w) store_four<WHOLE>(pairs[w], half, first, w * place.y_low, place);
        }
    }
}
#endif

template <bool WHOLE, int NT>
__device__ __forceinline__ void store_fragment(const float (&sums)[NT][4], const FragmentPlace& place) {
    const bool paired = place.paired();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
        if (row >= place.rows) continue;
        Y* const out = place.row_of_y(row);
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int column = place.column + j * 8 + threadIdx.x % 4 * 2;
            const float first = sums[j][half * 2], second = sums[j][half * 2 + 1];
            if (paired && (WHOLE || column + 1 < place.columns)) {
                store_pair(out + column, place.y_low, first, second);
            } else {
                if (WHOLE || column < place.columns) store(out + column, place.y_low, first);
                if (WHOLE || column + 1 < place.columns) store(out + column + 1, place.y_low, second);
            }
        }
    }
}

#if EPILOGUE == EPILOGUE_GETMAX
// The largest of each value over the eight lanes of one t: lane g keeps number g, so that all lanes end with one.
// Lanes twice as near each time keep one half of what they still have and give the other away.
__device__ __forceinline__ int spread_largest(int (&values)[8]) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        const bool upper = g & half;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const int given = upper ? values[i] : values[i + half];
            const int kept = upper ? values[i + half] : values[i];
            values[i] = max(kept, __shfl_xor_sync(0xFFFFFFFFu, given, half * 4));
        }
    }
    return values[0];
}

// y holds zeros, or what is at least zero. Rows of one owner lie together: the warp takes one owner after the other,
// and writes 32 of its columns at once.
template <int NT>
__device__ __forceinline__ void store_largest(const float (&sums)[NT][4], const FragmentPlace& place) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int above = place.row + g, below = above + 8;
    const int owner_above = above < place.rows ? place.owners[above] : -1;
    const int owner_below = below < place.rows ? place.owners[below] : -1;
    const int end = min(place.row + 16, place.rows);
    for (int row = place.row; row < end;) {
        const int owner = place.owners[row];
        const bool has_above = owner_above == owner, has_below = owner_below == owner;
        float* const out = place.row_of_y(owner);
#pragma unroll
        for (int first = 0; first < NT; first += 4) {
            int values[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int j = first + i / 2;
                const int high = j < NT && has_above ? relu_bits(sums[j % NT][i % 2]) : 0;
                const int low = j < NT && has_below ? relu_bits(sums[j % NT][i % 2 + 2]) : 0;
                values[i] = max(high, low);
            }
            const int largest = spread_largest(values);
            const int column = place.column + (first + g / 2) * 8 + t * 2 + g % 2;
            if (first + g / 2 < NT && column < place.columns) raise(out + column, largest);
        }
        row += (__popc(__ballot_sync(0xFFFFFFFFu, has_above)) + __popc(__ballot_sync(0xFFFFFFFFu, has_below))) / 4;
    }
}
#endif

// -0 becomes 0, as by __hmax2_nan.
__device__ __forceinline__ float rectified(float value) { return value <= 0.0f ? 0.0f : value; }

#if EPILOGUE == EPILOGUE_RESIDUAL
// Rows of x begin at multiples of 16 bytes: two neighbours are read at once, the second one from the padding at the end.
template <int NT>
__device__ __forceinline__ void add_rows(float (&sums)[NT][4], const FragmentPlace& place) {
    const int column = place.column + threadIdx.x % 4 * 2, left = place.columns - column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = place.row + half * 8 + threadIdx.x % 32 / 4;
        if (row >= place.rows) continue;
        const Operand* const x = place.x + static_cast<long long>(row) * place.x_row + column;
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            if (j * 8 >= left) break;
#pragma unroll
            for (int part = 0; part < (SPLIT ? 2 : 1); ++part) {
                const Operands both = *reinterpret_cast<const Operands*>(x + part * place.x_low + j * 8);
                sums[j][half * 2] += static_cast<float>(both.x);
                sums[j][half * 2 + 1] += static_cast<float>(both.y);
            }
        }
    }
}
#endif

#include "fragment_experts.cuh"

template <bool WHOLE, int NT>
__device__ __forceinline__ void store_values(float (&sums)[NT][4], const FragmentPlace& place) {
#if EPILOGUE == EPILOGUE_GETMAX
    store_largest(sums, place);
#elif EPILOGUE >= EPILOGUE_EXPERTS
    store_experts(sums, place);
#else
#if EPILOGUE == EPILOGUE_RELU || EPILOGUE == EPILOGUE_RESIDUAL
#pragma unroll
    for (int j = 0; j < NT; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] = rectified(sums[j][i]);
    }
#endif
#if EPILOGUE == EPILOGUE_RESIDUAL
    add_rows(sums, place);
#endif
#ifdef GATHERS
    if constexpr (NT % 4 == 0) {
        if (in_eights(place)) return store_gathered<WHOLE>(sums, place);
    }
#endif
    store_fragment<WHOLE>(sums, place);
#endif
}

template <bool WHOLE, int NT>
__device__ __forceinline__ void finish_columns(float (&sums)[NT][4], const FragmentPlace& place) {
    scale_and_bias<WHOLE>(sums, place);
    store_values<WHOLE>(sums, place);
}

// Scales, adds the bias, and does what EPILOGUE says. It changes the sums.
template <int NT>
__device__ __forceinline__ void finish(float (&sums)[NT][4], const FragmentPlace& place) {
    if (place.whole(NT * 8)) return finish_columns<true>(sums, place);
    finish_columns<false>(sums, place);
}
