// The keywords of CUDA C, where a thread stands in the grid, and the barriers of a block.
// `__shared__` and `__launch_bounds__` are no macros: build.py translates them.
#pragma once

#include "host_cuda/runtime.h"
#include "host_cuda/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// Set by the scheduler before it resumes a thread: the threads of a block share one thread of the machine.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

inline void __syncthreads(host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::barrier_block(host_cuda::Vote::none, 0, site);
}
inline int __syncthreads_count(int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::barrier_block(host_cuda::Vote::count, predicate, site);
}
inline int __syncthreads_and(int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::barrier_block(host_cuda::Vote::all, predicate, site);
}
inline int __syncthreads_or(int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::barrier_block(host_cuda::Vote::any, predicate, site);
}

// One machine thread runs everything, so memory is always in order. (What a missing fence does, only a GPU shows.)
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

[[noreturn]] inline void __trap(host_cuda::Site site = host_cuda::Site::here()) { host_cuda::fail(site, "__trap()"); }

// Shared memory's own addresses: offsets into it.
inline std::size_t __cvta_generic_to_shared(const void* pointer, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::shared_address(pointer, site);
}
