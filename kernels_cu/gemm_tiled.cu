// GEMM through shared memory: y[m, n] = bias[n] + sum_k weight[n, k] * a[m, k].
//
//   a       float32 [rows, inputs]
//   weight  float32 [outputs, inputs]
//   bias    float32 [outputs]
//   y       float32 [rows, outputs]   written whole
//
// A block computes TILE x TILE of y, a thread one value. Each value of a and weight is read TILE times less often than
// by `linear`; rows of the tiles are one longer, so that a warp reads a column of `b` from different banks. k runs
// upwards in one chain of fma, so a row's result depends on that row alone. Grid: tiles of rows, of outputs.
#ifndef TILE
#error "TILE not defined"
#endif

extern "C" __global__ void __launch_bounds__(TILE* TILE)
gemm_tiled(const float* __restrict__ a, const float* __restrict__ weight, const float* __restrict__ bias,
           float* __restrict__ y, long long rows, int inputs, int outputs) {
    __shared__ float a_tile[TILE][TILE + 1];
    __shared__ float b_tile[TILE][TILE + 1];
    const int column = threadIdx.x;
    const int line = threadIdx.y;
    const long long row = static_cast<long long>(blockIdx.x) * TILE + line;
    const long long loaded = static_cast<long long>(blockIdx.y) * TILE + line;  // the weight's row that it brings
    const int output = blockIdx.y * TILE + column;
    float sum = 0.0f;
    for (int first = 0; first < inputs; first += TILE) {
        const int k = first + column;
        a_tile[line][column] = row < rows && k < inputs ? a[row * inputs + k] : 0.0f;
        b_tile[line][column] = loaded < outputs && k < inputs ? weight[loaded * inputs + k] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum = fmaf(a_tile[line][i], b_tile[column][i], sum);
        __syncthreads();
    }
    if (row < rows && output < outputs) y[row * outputs + output] = sum + bias[output];
}
