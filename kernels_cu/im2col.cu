// Im2col: columns[w, i] = x[starts[w] * dimension + i]: the rows of a window lie one after the other in x already.
//
//   x        float32 [tokens, dimension]
//   starts   int32   [windows]               first token of each window
//   columns  float32 [windows, depth]        depth = width * dimension; written whole
//
// A block copies a part of one window, a thread VECTOR floats; VECTOR divides the dimension. Grid: windows, parts.
#if !defined(THREADS) || !defined(VECTOR)
#error "THREADS or VECTOR not defined"
#endif

template <int COUNT>
struct alignas(4 * COUNT) Piece {
    float values[COUNT];
};

extern "C" __global__ void __launch_bounds__(THREADS)
im2col(const float* __restrict__ x, const int* __restrict__ starts, float* __restrict__ columns,
       int dimension, int depth) {
    const int at = (blockIdx.y * THREADS + threadIdx.x) * VECTOR;
    if (at >= depth) return;
    const float* window = x + static_cast<long long>(starts[blockIdx.x]) * dimension;
    float* row = columns + static_cast<long long>(blockIdx.x) * depth;
    *reinterpret_cast<Piece<VECTOR>*>(row + at) = *reinterpret_cast<const Piece<VECTOR>*>(window + at);
}
