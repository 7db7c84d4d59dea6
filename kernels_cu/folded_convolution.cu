// Folded convolution: convolution, ReLU and the maximum over time as sums of table rows. For the w taps of kind k
//   features[s, k * filters + f] = max(0, after[k, f] + scale[k, f] * max over t of sum over j < w of
//                                         table[k][ids[offsets[s] + t + j], j, f]).
//
//   ids       int32   [tokens]              every id lies in [0, vocabulary)
//   offsets   int32   [sentences + 1]       every sentence has at least as many tokens as the widest kind
//   taps      int32   [kinds + 1]           of all kinds before each one; bit w of WIDTHS is set if one has w
//   table     TYPE    [kinds] of [slices, vocabulary, w, SLICE]   see folded_types.cuh
//   scale     float32 [kinds, filters]      read with TABLE_FIXED only; others have no scale
//   after     float32 [kinds, filters]      the bias, and with TABLE_FIXED what was the lowest of each tap
//   features  OUTPUT  [sentences, pitch]    the first kinds * filters of each row are written; see tensor_types.cuh
//                     with PACKED as packed_place.cuh has it; pitch is then the rows rounded up to 8
//
// A NaN among a window's values makes a NaN of the feature. Each value of a row is read once: what bounds this is how
// many of the reads miss the caches. A group of LANES threads reads a row, 16 bytes each; SPREAD groups share the
// windows of a sentence, and each takes AT_ONCE together, so that many reads are under way. A warp stages CHUNK ids of
// each of its sentences. Where it has several the block takes its sentences by their lengths. ALIGNED says that `filters`
// and `pitch` are multiples of VECTOR.
// Grid: sentences, then slices: all processors work on one slice, whose words the caches hold; the last kind first.
#include "folded_sums.cuh"
#include "packed_place.cuh"

#if !defined(WIDTHS) || !defined(SPREAD) || !defined(AT_ONCE) || !defined(CHUNK) || !defined(ALIGNED)
#error "WIDTHS, SPREAD, AT_ONCE, CHUNK or ALIGNED not defined"
#endif
#if !defined(THREADS) || !defined(BLOCKS) || !defined(PACKED)
#error "THREADS, BLOCKS or PACKED not defined"
#endif
static_assert(!PACKED || (ALIGNED && VECTOR <= PIECE), "a thread's filters lie in one piece");

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int HELD = BLOCKS;
#else
constexpr int HELD = BLOCKS - 1;  // elsewhere registers would be spilled
#endif

constexpr int LANES = ROW_BYTES / 16;
constexpr int MEMBERS = LANES * SPREAD;   // threads of a sentence
constexpr int TEAMS = THREADS / MEMBERS;  // sentences of a block
constexpr int STAGED = CHUNK + LANES;     // teams of a warp read different banks

template <class T>
struct alignas(VECTOR * sizeof(T)) Piece {
    T values[VECTOR];
};

// A team's sentence, where its ids are staged, and the thread's filters of the first word.
struct Place {
    const int* ids;
    int tokens;
    int* staged;
    const unsigned char* rows;
};

// Takes the windows of WIDTH staged words from `at` on, AT_ONCE of them or what there is up to `count`.
template <int WIDTH>
__device__ __forceinline__ void take(Sums& largest, const Place& place, int at, int count) {
    const unsigned char* words[WIDTH + AT_ONCE - 1];
#pragma unroll
    for (int i = 0; i < WIDTH + AT_ONCE - 1; ++i) {
        words[i] = place.rows + static_cast<long long>(place.staged[at + i]) * (WIDTH * ROW_BYTES);
    }
#pragma unroll
    for (int window = 0; window < AT_ONCE; ++window) {
        Sums sums = values_at(words[window]);
#pragma unroll
        for (int j = 1; j < WIDTH; ++j) add(sums, values_at(words[window + j] + j * ROW_BYTES));
        if (at + window < count) {
#pragma unroll
            for (int i = 0; i < SUMS; ++i) largest.of[i] = larger(largest.of[i], sums.of[i]);
        }
    }
}

// Of the windows of WIDTH words those that fall to this thread. All threads of a warp come here together.
template <int WIDTH>
__device__ __forceinline__ void pool(Sums& largest, const Place& place) {
    constexpr int STEP = CHUNK - WIDTH + 1;  // windows of a chunk
    static_assert(WIDTH + AT_ONCE - 1 <= CHUNK, "a chunk holds the words that are taken at once");
    const int member = threadIdx.x % MEMBERS;
    const int windows = place.tokens - WIDTH + 1;
    for (int first = 0; __any_sync(0xFFFFFFFFu, first < windows); first += STEP) {
        __syncwarp();
        if (first < windows) {
            const int words = min(place.tokens - first + AT_ONCE - 1, CHUNK);  // some of no window, taken with one
            for (int i = member; i < words; i += MEMBERS) {
                place.staged[i] = place.ids[min(first + i, place.tokens - 1)];
            }
        }
        __syncwarp();
        const int count = min(windows - first, STEP);
        for (int t = member / LANES * AT_ONCE; t < count; t += SPREAD * AT_ONCE) {
            take<WIDTH>(largest, place, max(min(t, count - AT_ONCE), 0), count);
        }
    }
}

// pool<width>, if that is one of WIDTHS and at most WIDEST.
template <int WIDEST>
__device__ __forceinline__ void pool_of(int width, Sums& largest, const Place& place) {
    if constexpr ((WIDTHS >> WIDEST & 1) != 0) {
        if (width == WIDEST) return pool<WIDEST>(largest, place);
    }
    if constexpr (WIDEST > 1) pool_of<WIDEST - 1>(width, largest, place);
}

// Of filter i of the thread.
__device__ __forceinline__ float feature_of(const Sums& largest, int i, float scale, float after) {
    const float value = TYPE == TABLE_FIXED ? fmaf(scale, value_of(largest, i), after) : value_of(largest, i) + after;
    return value > 0.0f || value != value ? value : 0.0f;
}

// Which of the block's sentences this team takes: the longest first, so that teams of a warp finish together.
__device__ __forceinline__ int ranked(int team, const int* offsets, int sentences) {
    static_assert(TEAMS <= 32, "a warp ranks them");
    __shared__ int order[TEAMS];
    if (threadIdx.x < 32) {
        const int mine = threadIdx.x, sentence = blockIdx.x * TEAMS + mine;
        const int tokens = mine < TEAMS && sentence < sentences ? offsets[sentence + 1] - offsets[sentence] : 0;
        int rank = 0;
#pragma unroll
        for (int other = 0; other < TEAMS; ++other) {
            const int others = __shfl_sync(0xFFFFFFFFu, tokens, other);
            rank += others > tokens || (others == tokens && other < mine);
        }
        if (mine < TEAMS) order[rank] = mine;
    }
    __syncthreads();
    return order[team];
}

extern "C" __global__ void __launch_bounds__(THREADS, HELD)
folded_convolution(const int* __restrict__ ids, const int* __restrict__ offsets, const int* __restrict__ taps,
                   const unsigned char* __restrict__ table, const float* __restrict__ scale,
                   const float* __restrict__ after, unsigned char* __restrict__ features,
                   int sentences, int vocabulary, int filters, int pitch, long long low) {
    __shared__ int staged[TEAMS][STAGED];
    const int slices = (filters + SLICE - 1) / SLICE;
    const int piece = gridDim.y - 1 - blockIdx.y;
    const int kind = piece / slices;
    const int slice = piece % slices;
    const int width = taps[kind + 1] - taps[kind];
    const long long before = static_cast<long long>(taps[kind] * slices + slice * width) * vocabulary;  // rows

    const int team = threadIdx.x / MEMBERS;
    const int lane = threadIdx.x % LANES;
    const int sentence = blockIdx.x * TEAMS + (MEMBERS < 32 ? ranked(team, offsets, sentences) : team);
    const int first = sentence < sentences ? offsets[sentence] : 0;
    const int tokens = sentence < sentences ? offsets[sentence + 1] - first : 0;
    Sums largest;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) largest.of[i] = LOWEST;
    pool_of<30>(width, largest, {ids + first, tokens, staged[team], table + before * ROW_BYTES + lane * 16});
#pragma unroll
    for (int apart = LANES; apart < MEMBERS; apart *= 2) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            largest.of[i] = larger(largest.of[i], __shfl_xor_sync(0xFFFFFFFFu, largest.of[i], apart));
        }
    }

    const int filter = slice * SLICE + lane * VECTOR;
    if (sentence >= sentences || threadIdx.x % MEMBERS >= LANES || filter >= filters) return;
    const int column = kind * filters + filter;
    Y* const out = reinterpret_cast<Y*>(features) + (PACKED ? packed_place(sentence, column, pitch)
                                                            : static_cast<long long>(sentence) * pitch + column);
#if ALIGNED
    const Piece<float> factors = *reinterpret_cast<const Piece<float>*>(scale + column);  // gone if there is no scale
    const Piece<float> addends = *reinterpret_cast<const Piece<float>*>(after + column);
    constexpr int COPIES = OUTPUT == OUTPUT_SPLIT ? 2 : 1;
    Piece<Y> pieces[COPIES];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        store(&pieces[0].values[i], VECTOR, feature_of(largest, i, factors.values[i], addends.values[i]));
    }
#pragma unroll
    for (int i = 0; i < COPIES; ++i) *reinterpret_cast<Piece<Y>*>(out + i * low) = pieces[i];
#else
    for (int i = 0; i < VECTOR && filter + i < filters; ++i) {
        store(out + i, low, feature_of(largest, i, scale[column + i], after[column + i]));
    }
#endif
}
