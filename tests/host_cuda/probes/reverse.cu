// Reverses each tile of THREADS float4 through dynamic shared memory: y[tile, i] = x[tile, THREADS - 1 - i].
//
//   x  float32 [tiles, THREADS, 4]
//   y  float32 [tiles, THREADS, 4]
//   shared memory: THREADS float4

extern "C" __global__ void __launch_bounds__(THREADS)
reverse(const float* __restrict__ x, float* __restrict__ y) {
    extern __shared__ __align__(16) unsigned char memory[];
    float4* tile = reinterpret_cast<float4*>(memory);
    const long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    tile[threadIdx.x] = *reinterpret_cast<const float4*>(x + 4 * i);
    __syncthreads();
    *reinterpret_cast<float4*>(y + 4 * i) = tile[THREADS - 1 - threadIdx.x];
}
