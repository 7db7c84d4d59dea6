// Shared by every kernel: index helpers. No kernel and no PTX lives here.
#pragma once

// The running index of this thread over a one-dimensional grid; 64 bits, since rows * columns may pass 2^31.
__device__ __forceinline__ long long global_thread() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
