// Toom-Cook, weights: u[p, d, column + c] = sum_j matrix[p, j] * weight[c, d, j], in double, rounded once.
//
//   weight  float32 [filters, dimension, TAPS]
//   matrix  float64 [products, TAPS]
//   u       float32 [products, dimension, pitch]   columns column .. column + filters - 1 are written
//
// Bound by writing u. A block brings FILTERS filters of CHANNELS channels through shared memory, so that weights are
// read along channels and taps and u is written along filters; the tile's rows are of odd length, so that its columns
// lie in different banks. A lane is a filter. Grid: tiles of filters, of channels.
#if !defined(TAPS) || !defined(FILTERS) || !defined(CHANNELS) || !defined(ROWS)
#error "TAPS, FILTERS, CHANNELS or ROWS not defined"
#endif

constexpr int WIDTH = CHANNELS * TAPS;
static_assert(WIDTH % 2 == 0, "a tile's row with one more value is of odd length");

extern "C" __global__ void __launch_bounds__(FILTERS* ROWS)
toomcook_weights(const float* __restrict__ weight, const double* __restrict__ matrix, float* __restrict__ u,
                 int filters, int dimension, int products, int pitch, int column) {
    __shared__ float tile[FILTERS][WIDTH + 1];
    const int first_filter = blockIdx.x * FILTERS;
    const int first_channel = blockIdx.y * CHANNELS;
    const int channels = min(CHANNELS, dimension - first_channel);
    for (int i = threadIdx.y; i < FILTERS && first_filter + i < filters; i += ROWS) {
        const float* from = weight + (static_cast<long long>(first_filter + i) * dimension + first_channel) * TAPS;
        for (int k = threadIdx.x; k < channels * TAPS; k += FILTERS) tile[i][k] = from[k];
    }
    __syncthreads();
    const int filter = first_filter + threadIdx.x;
    if (filter >= filters) return;
    const long long next = static_cast<long long>(dimension) * pitch;
    for (int channel = threadIdx.y; channel < channels; channel += ROWS) {
        double taps[TAPS];
#pragma unroll
        for (int j = 0; j < TAPS; ++j) taps[j] = tile[threadIdx.x][channel * TAPS + j];
        float* out = u + static_cast<long long>(first_channel + channel) * pitch + column + filter;
        for (int p = 0; p < products; ++p, out += next) {
            double sum = 0.0;
#pragma unroll
            for (int j = 0; j < TAPS; ++j) sum = fma(matrix[p * TAPS + j], taps[j], sum);
            *out = static_cast<float>(sum);
        }
    }
}
