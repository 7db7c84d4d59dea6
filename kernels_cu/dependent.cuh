// Kernels whose twin says `overlaps` are launched while the one before them in the stream is still running, where the
// device can do that: their blocks come to processors that have become free, and get themselves ready.
#pragma once

#include "ptx.cuh"

// Every thread calls it, and before it touches no array: what is there may not be written yet, or still be read.
__device__ __forceinline__ void wait_for_kernels_before() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
#endif
}
