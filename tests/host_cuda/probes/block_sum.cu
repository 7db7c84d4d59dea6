// Sum over each row: y[r] = sum_c x[r, c]. A block a row: partial sums in shared memory, halved until one warp is
// left, which shuffles. A probe: it has what a fault can be planted into.
//
//   x  float32 [rows, columns]
//   y  float32 [rows]

extern "C" __global__ void __launch_bounds__(THREADS)
block_sum(const float* __restrict__ x, float* __restrict__ y, int columns) {
    __shared__ float partial[THREADS];
    const float* row = x + static_cast<long long>(blockIdx.x) * columns;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += THREADS) sum += row[c];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = partial[threadIdx.x];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
        if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }
}
