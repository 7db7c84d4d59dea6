// Pack taps: packed[j * dimension + d, c] = weight[c, d, j], and zero for c from `filters` on.
//
//   weight  float32 [filters, dimension, taps]
//   packed  float32 [taps * dimension, pitch]   written whole
//
// A transpose whose rows change places: a block moves a tile of TILE x TILE through shared memory, so that both sides
// are read and written along rows; the tile's rows are one longer, so that its columns lie in different banks.
// Grid: tiles of dimension * taps, of pitch.
#if !defined(TILE) || !defined(ROWS)
#error "TILE or ROWS not defined"
#endif

extern "C" __global__ void __launch_bounds__(TILE* ROWS)
pack_taps(const float* __restrict__ weight, float* __restrict__ packed, int filters, int dimension, int taps,
          int pitch) {
    __shared__ float tile[TILE][TILE + 1];
    const int depth = dimension * taps;
    const int first_place = blockIdx.x * TILE;
    const int first_filter = blockIdx.y * TILE;
    const int place = first_place + threadIdx.x;  // of a value in its filter: d * taps + j
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        const long long filter = first_filter + i;
        tile[i][threadIdx.x] = filter < filters && place < depth ? weight[filter * depth + place] : 0.0f;
    }
    __syncthreads();
    const int column = first_filter + threadIdx.x;
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        const int from = first_place + i;
        if (from < depth && column < pitch) {
            const long long row = static_cast<long long>(from % taps) * dimension + from / taps;
            packed[row * pitch + column] = tile[threadIdx.x][i];
        }
    }
}
