// Clusters: blocks that run together and reach into each other's shared memory.
#pragma once

#include "ptx/mbarrier.h"

namespace ptx {

inline unsigned cluster_rank() { return host_cuda::cluster_rank(); }
inline void cluster_arrive(host_cuda::Site site = host_cuda::Site::here()) { host_cuda::cluster_arrive(site); }
inline void cluster_wait(host_cuda::Site site = host_cuda::Site::here()) { host_cuda::cluster_wait(site); }
inline void cluster_sync(host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::cluster_arrive(site);
    host_cuda::cluster_wait(site);
}

inline void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank,
                                    host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::mbarrier_arrive(host_cuda::barrier_in_block(rank, barrier, "mbarrier.arrive", site), 0, site);
}
inline void mbarrier_arrive_cluster_relaxed(unsigned long long* barrier, unsigned rank,
                                            host_cuda::Site site = host_cuda::Site::here()) {
    mbarrier_arrive_cluster(barrier, rank, site);
}
inline bool mbarrier_try_wait_parity_cluster(unsigned long long* barrier, unsigned parity,
                                             host_cuda::Site site = host_cuda::Site::here()) {
    return mbarrier_try_wait_parity(barrier, parity, site);
}
inline void cp_async_bulk_multicast(void* to, const void* from, unsigned bytes, unsigned long long* barrier,
                                    unsigned short mask, host_cuda::Site site = host_cuda::Site::here()) {
    if (!mask || mask >> host_cuda::cluster_size()) {
        host_cuda::fail(site, "cp.async.bulk to the blocks of mask 0x%x in a cluster of %u", unsigned{mask},
                        host_cuda::cluster_size());
    }
    host_cuda::cp_async_bulk(to, from, bytes, barrier, mask, site);
}
// What a missing fence does, only a GPU shows.
inline void fence_mbarrier_init() {}

}  // namespace ptx
