// Text lookup: the id of each token, at its place in its sentence; of a long sentence those that are kept.
//
//   text     uint8 [size]
//   breaks   uint32 [tiles, THREADS]   where lines end (text_lines)
//   starts   uint32 [tiles, THREADS]   where tokens start (text_marks)
//   stops    uint32 [tiles, THREADS]   where they have ended
//   lines    int32 [tiles]             lines that end before each tile
//   tokens   int32 [tiles]             tokens that start before each tile
//   found    int32 [room]              tokens up to the end of each line (text_ends)
//   offsets  int32 [room + 1]          where each sentence begins
//   slots    uint32 [mask + 1, 4]      a hash table of words: hash, id, begin in `words`, size; empty if that is 0
//   words    uint8 [bytes]             the words end to end
//   ids      int32 [tokens]
//
// A word lies in one of the `probes` slots from its hash on, and no empty slot comes before it. `longest` is
// the size of the longest word. A block lists the tokens of its tile, then a thread takes one at a time.
#include "text_common.cuh"

// The bytes of a token as they are read: in lower case, and the curly apostrophe E2 80 99 as '.
struct Reader {
    const unsigned char* at;
    const unsigned char* end;

    __device__ __forceinline__ bool more() const { return at < end; }
    __device__ __forceinline__ unsigned next() {
        const unsigned byte = *at++;
        if (byte == 0xE2u && end - at >= 2 && at[0] == 0x80u && at[1] == 0x99u) {
            at += 2;
            return '\'';
        }
        return 'A' <= byte && byte <= 'Z' ? byte + 32u : byte;
    }
};

__device__ __forceinline__ bool spells(Reader token, const unsigned char* word) {
    while (token.more()) {
        if (token.next() != *word++) return false;
    }
    return true;
}

// The word's id, or 0. The hash is FNV-1a.
__device__ __forceinline__ int look_up(const Reader token, const uint4* slots, const unsigned char* words,
                                       unsigned mask, int probes, int longest) {
    unsigned hash = 2166136261u;
    int size = 0;
    for (Reader rest = token; rest.more(); ++size) {
        if (size == longest) return 0;
        hash = (hash ^ rest.next()) * 16777619u;
    }
    for (int probe = 0; probe < probes; ++probe) {
        const uint4 slot = slots[(hash + probe) & mask];
        if (slot.w == 0u) return 0;
        if (slot.x == hash && slot.w == size && spells(token, words + slot.z)) return slot.y;
    }
    return 0;
}

// Where the token that starts at `place` ends, or a place so far away that no word reaches it.
__device__ __forceinline__ int token_end(const unsigned* stops, int place, int longest) {
    int word = place / 32;
    unsigned bits = stops[word] & ~1u << place % 32;
    while (!bits && 32 * word < place + 3 * longest) bits = stops[++word];
    return 32 * word + (bits ? __ffs(bits) - 1 : 32);
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_lookup(const unsigned char* __restrict__ text, const unsigned* __restrict__ breaks,
            const unsigned* __restrict__ starts, const unsigned* __restrict__ stops, const int* __restrict__ lines,
            const int* __restrict__ tokens, const int* __restrict__ found, const int* __restrict__ offsets,
            const unsigned* __restrict__ slots, const unsigned char* __restrict__ words, int* __restrict__ ids,
            int mask, int probes, int longest, int room) {
    __shared__ unsigned list[TILE];  // of each token its line and its place, within the tile
    const int word = blockIdx.x * THREADS + threadIdx.x;
    const unsigned own_breaks = breaks[word], own_starts = starts[word];
    int total;  // both sums in one: a tile has fewer than 2^16 of either
    const int both = sum_before(__popc(own_starts) << 16 | __popc(own_breaks), total);
    int rank = both >> 16;
    for (unsigned left = own_starts; left; left &= left - 1u) {
        const int bit = __ffs(left) - 1;
        const int line = (both & 0xFFFF) + __popc(below(own_breaks, bit));
        list[rank++] = line * TILE + 32 * threadIdx.x + bit;
    }
    __syncthreads();

    for (int i = threadIdx.x; i < total >> 16; i += THREADS) {
        const int line = lines[blockIdx.x] + static_cast<int>(list[i] / TILE);
        if (line >= room) return;
        const int place = blockIdx.x * TILE + static_cast<int>(list[i] % TILE);
        const int before = line > 0 ? found[line - 1] : 0;
        const int target = offsets[line] + tokens[blockIdx.x] + i - before;
        if (target >= offsets[line + 1]) continue;
        const Reader token{text + place, text + token_end(stops, place, longest)};
        ids[target] = look_up(token, reinterpret_cast<const uint4*>(slots), words, mask, probes, longest);
    }
}
