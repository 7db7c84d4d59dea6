// Where each thread stands: a count of visits by its place in the grid, and the sum of its coordinates, weighed. A probe.
//
//   visits  int32 [threads of the grid]   begins at 0
//   place   int32 [threads of the grid]

extern "C" __global__ void places(int* __restrict__ visits, int* __restrict__ place) {
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    visits[i] += 1;
    place[i] = ((blockIdx.z * 10 + blockIdx.y) * 10 + blockIdx.x) * 1000 +
               (threadIdx.z * 10 + threadIdx.y) * 10 + threadIdx.x;
}
