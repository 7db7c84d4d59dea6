// Toom-Cook, input: v[p, c, d] = sum_t matrix[p, t] * x[starts[c] + t, d], t running over the TOKENS of chunk c.
// Tokens past the sentence's end count as zeros; each chunk has at least one before it.
//
//   x        float32, by SOURCE:  CHANNEL_ROWS [sentences, dimension, length], sentences of one length
//                                 TABLE_ROWS [vocabulary, dimension], of which token t is row ids[t]
//   ids      int32   [tokens]            read for TABLE_ROWS only
//   starts   int32   [chunks]            first token of each chunk
//   owners   int32   [chunks]            its sentence
//   offsets  int32   [sentences + 1]     first token of each sentence
//   matrix   float32 [PRODUCTS, TOKENS]
//   v        float32 [PRODUCTS, chunks, dimension]   written whole
//
// Bound by memory. A thread holds the tokens of its channels in registers: of VECTOR neighbouring ones, or of one with
// CHANNEL_ROWS, which it reads VECTOR tokens at a time; VECTOR divides `length` and where a chunk begins.
// Grid: chunks, tiles of channels.
#if !defined(SOURCE) || !defined(TOKENS) || !defined(PRODUCTS) || !defined(VECTOR) || !defined(THREADS)
#error "SOURCE, TOKENS, PRODUCTS, VECTOR or THREADS not defined"
#endif

constexpr int CHANNEL_ROWS = 0;
constexpr int TABLE_ROWS = 1;
static_assert(SOURCE == CHANNEL_ROWS || SOURCE == TABLE_ROWS, "SOURCE");

constexpr int CHANNELS = SOURCE == CHANNEL_ROWS ? 1 : VECTOR;
constexpr int PADDED = (TOKENS + 3) / 4 * 4;  // a row of the matrix is read four at a time

template <int COUNT>
struct alignas(4 * COUNT) Piece {
    float values[COUNT];
};

template <int COUNT>
__device__ __forceinline__ Piece<COUNT> piece(const float* at) {
    return *reinterpret_cast<const Piece<COUNT>*>(at);
}

extern "C" __global__ void __launch_bounds__(THREADS)
toomcook_input(const float* __restrict__ x, const int* __restrict__ ids, const int* __restrict__ starts,
               const int* __restrict__ owners, const int* __restrict__ offsets, const float* __restrict__ matrix,
               float* __restrict__ v, int chunks, int dimension, int length) {
    alignas(16) __shared__ float rows[PRODUCTS][PADDED];
    for (int i = threadIdx.x; i < PRODUCTS * PADDED; i += THREADS) {
        const int t = i % PADDED;
        rows[i / PADDED][t] = t < TOKENS ? matrix[i / PADDED * TOKENS + t] : 0.0f;
    }
    __syncthreads();
    const int channel = (blockIdx.y * THREADS + threadIdx.x) * CHANNELS;
    if (channel >= dimension) return;
    const int start = starts[blockIdx.x];
    const int owner = owners[blockIdx.x];
    const int live = offsets[owner + 1] - start;

    // What lies past the end is read as the last and then dropped, so that no read waits for a condition.
    float tokens[PADDED][CHANNELS] = {};
    if constexpr (SOURCE == CHANNEL_ROWS) {
        const long long row = static_cast<long long>(owner) * dimension + channel;
        const float* at = x + row * length + (start - offsets[owner]);
#pragma unroll
        for (int t = 0; t < TOKENS; t += VECTOR) {
            const Piece<VECTOR> some = piece<VECTOR>(at + min(t, live - VECTOR));
#pragma unroll
            for (int i = 0; i < VECTOR; ++i)
                if (t + i < TOKENS) tokens[t + i][0] = t < live ? some.values[i] : 0.0f;
        }
    } else {
#pragma unroll
        for (int t = 0; t < TOKENS; ++t) {
            const long long row = ids[start + min(t, live - 1)];
            const Piece<CHANNELS> some = piece<CHANNELS>(x + row * dimension + channel);
#pragma unroll
            for (int i = 0; i < CHANNELS; ++i) tokens[t][i] = t < live ? some.values[i] : 0.0f;
        }
    }

    float* out = v + static_cast<long long>(blockIdx.x) * dimension + channel;
    const long long next = static_cast<long long>(chunks) * dimension;
#pragma unroll 2
    for (int p = 0; p < PRODUCTS; ++p, out += next) {
        Piece<CHANNELS> sums = {};
#pragma unroll
        for (int t = 0; t < TOKENS; t += 4) {
            const float4 four = *reinterpret_cast<const float4*>(&rows[p][t]);
#pragma unroll
            for (int i = 0; i < CHANNELS; ++i) {
                sums.values[i] = fmaf(four.x, tokens[t][i], sums.values[i]);
                sums.values[i] = fmaf(four.y, tokens[t + 1][i], sums.values[i]);
                sums.values[i] = fmaf(four.z, tokens[t + 2][i], sums.values[i]);
                sums.values[i] = fmaf(four.w, tokens[t + 3][i], sums.values[i]);
            }
        }
        *reinterpret_cast<Piece<CHANNELS>*>(out) = sums;
    }
}
