// The twins of kernels_cu/ptx.cuh: the same functions in plain C++, as the PTX manual describes the instructions.
// Included ahead of every kernel: the guard is the one of the real header, which is then skipped.
#ifndef ACCEL_PTX_CUH
#define ACCEL_PTX_CUH

#include "ptx/cluster.h"
#include "ptx/copies.h"
#include "ptx/grid.h"
#include "ptx/mbarrier.h"
#include "ptx/mma.h"
#include "ptx/wgmma.h"

namespace ptx {

inline unsigned shared_address(const void* pointer, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::shared_address(pointer, site);
}

inline void barrier_sync(int id, int threads, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::barrier_sync(id, static_cast<unsigned>(threads), site);
}
inline void barrier_arrive(int id, int threads, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::barrier_arrive(id, static_cast<unsigned>(threads), site);
}

}  // namespace ptx

#endif  // ACCEL_PTX_CUH
