// Pack tiles: weights as the products of tensor cores read them, see packed_place.cuh.
//
//   weight  float32 [batch, outputs, inputs, taps]
//   packed  OUTPUT  [batch, taps * dimension / STEP, pitch, 128 bytes]   written whole
//
// Value k of row n is scale * weight[n, k % dimension, k / dimension], and zero for channels from `inputs` on and rows
// from `outputs` on. pitch is a multiple of 8, dimension of STEP. One thread for two values; y is the batch.
#include "common.cuh"
#include "packed_place.cuh"

#ifndef THREADS
#error "THREADS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
pack_tiles(const float* __restrict__ weight, unsigned char* __restrict__ packed, int outputs, int inputs, int taps,
           int dimension, int pitch, long long packed_low, float scale) {
    const long long count = static_cast<long long>(taps) * dimension * pitch;
    const long long place = global_thread() * 2;  // neighbours read what lies behind each other in a row of the weight
    if (place >= count) return;
    const int k = place % (taps * dimension), channel = k % dimension;
    const int row = place / (taps * dimension);
    const float* const from =
        weight + ((static_cast<long long>(blockIdx.y) * outputs + row) * inputs + channel) * taps + k / dimension;
    Y* const to = reinterpret_cast<Y*>(packed) + blockIdx.y * count + packed_place(row, k, pitch);
    const bool inside = row < outputs;
    const float first = inside && channel < inputs ? scale * from[0] : 0.0f;
    const float second = inside && channel + 1 < inputs ? scale * from[taps] : 0.0f;
    store_pair(to, packed_low, first, second);
}
