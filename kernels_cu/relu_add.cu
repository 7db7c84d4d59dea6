// ReLU and add: out[r, c] = max(x[r, c], 0) + y[r, c] + bias[c], added in that order in fp32 and rounded once. A NaN
// stays a NaN.
//
//   x, y  OUTPUT [rows, columns]   from a multiple of 16 bytes on, like all arrays here
//   bias  OUTPUT [columns]
//   out   OUTPUT [rows, columns]   written whole
//
// A block takes THREADS * VECTORS vectors of 16 bytes that lie end to end, whatever the rows. x and y are read once and
// out is written once: three passes over memory, which is all that bounds this. A thread has 2 * VECTORS loads under
// way before it adds. WHOLE says that rows are whole vectors; then nothing is left over, and bias is read in vectors.
#include "common.cuh"
#include "tensor_types.cuh"

#if !defined(THREADS) || !defined(VECTORS) || !defined(WHOLE)
#error "THREADS, VECTORS or WHOLE not defined"
#endif

constexpr int WIDTH = 16 / sizeof(Y);

struct alignas(16) Vector {
    Y of[WIDTH];
};

__device__ __forceinline__ float wide(float value) { return value; }
__device__ __forceinline__ float wide(__half value) { return __half2float(value); }
__device__ __forceinline__ float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ Y sum(Y x, Y y, Y bias) {
    const float value = wide(x);
    Y result;
    store(&result, 0, (value < 0.0f ? 0.0f : value) + wide(y) + wide(bias));
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS)
relu_add(const unsigned char* __restrict__ x, const unsigned char* __restrict__ y,
         const unsigned char* __restrict__ bias, unsigned char* __restrict__ out, long long count, int columns) {
    const Y* const xs = reinterpret_cast<const Y*>(x);
    const Y* const ys = reinterpret_cast<const Y*>(y);
    const Y* const biases = reinterpret_cast<const Y*>(bias);
    Y* const outs = reinterpret_cast<Y*>(out);
    const long long first = static_cast<long long>(blockIdx.x) * (THREADS * VECTORS * WIDTH);
    Vector a[VECTORS], b[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long at = first + (v * THREADS + threadIdx.x) * WIDTH;
        if (at + WIDTH <= count) {
            a[v] = *reinterpret_cast<const Vector*>(xs + at);
            b[v] = *reinterpret_cast<const Vector*>(ys + at);
        }
    }
    const unsigned first_column = static_cast<unsigned>(first % columns);  // a division, while the loads are under way
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const unsigned place = (v * THREADS + threadIdx.x) * WIDTH;
        const long long at = first + place;
        unsigned column = (first_column + place) % static_cast<unsigned>(columns);
        if (at + WIDTH <= count) {
#if WHOLE
            const Vector c = *reinterpret_cast<const Vector*>(biases + column);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) a[v].of[i] = sum(a[v].of[i], b[v].of[i], c.of[i]);
#else
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                a[v].of[i] = sum(a[v].of[i], b[v].of[i], biases[column]);
                if (++column == columns) column = 0;
            }
#endif
            *reinterpret_cast<Vector*>(outs + at) = a[v];
        }
#if !WHOLE
        else {
            for (long long i = at; i < count; ++i) {
                outs[i] = sum(xs[i], ys[i], biases[column]);
                if (++column == columns) column = 0;
            }
        }
#endif
    }
}
