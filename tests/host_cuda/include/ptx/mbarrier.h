// Barriers in shared memory, and the bulk copies that they count the bytes of.
#pragma once

#include "ptx/copies.h"

namespace host_cuda {

// The device keeps its own secret form of this in the same 64 bits.
struct Mbarrier {
    std::uint64_t phase : 1, count : 20, pending : 20;
    std::int64_t bytes : 22;  // expected and not yet come

    static Mbarrier load(const unsigned long long* at) { return bits_as<Mbarrier>(*at); }
    void store(unsigned long long* at) const { *at = bits_as<unsigned long long>(*this); }

    void end_phase_if_complete() {
        if (pending || bytes) return;
        phase = !phase;
        pending = count;
    }
};

// A barrier of this block or, by in_block(), of another.
inline void mbarrier_arrive(unsigned long long* at, unsigned expected_bytes, Site site) {
    Mbarrier barrier = Mbarrier::load(at);
    if (!barrier.pending)
        fail(site, "mbarrier: more arrivals in a phase than its count of %u", unsigned(barrier.count));
    if (barrier.bytes + std::int64_t{expected_bytes} >= 1 << 20)
        fail(site, "mbarrier: expects more than 2^20 - 1 bytes");
    barrier.bytes += expected_bytes;
    barrier.pending = barrier.pending - 1;
    barrier.end_phase_if_complete();
    barrier.store(at);
}

inline unsigned long long* barrier_in_block(unsigned rank, unsigned long long* barrier, const char* what, Site site) {
    return static_cast<unsigned long long*>(in_block(rank, barrier, what, site));
}

// An arrival that comes when the copies before it have ended.
struct Arrival {
    unsigned long long* barrier;
    Site site;

    static void carry_out(const void* state) {
        const Arrival arrival = *static_cast<const Arrival*>(state);
        mbarrier_arrive(arrival.barrier, 0, arrival.site);
    }
};

struct BulkCopy {
    void* to;
    const void* from;
    unsigned bytes;
    unsigned long long* barrier;
    unsigned mask;  // the blocks of the cluster that receive it
    Site site;

    void carry_out_in(unsigned rank) const {
        std::memcpy(in_block(rank, to, "cp.async.bulk", site), from, bytes);
        unsigned long long* there = barrier_in_block(rank, barrier, "cp.async.bulk", site);
        Mbarrier told = Mbarrier::load(there);
        told.bytes -= bytes;
        told.end_phase_if_complete();
        told.store(there);
    }
    static void carry_out(const void* state) {
        const BulkCopy copy = *static_cast<const BulkCopy*>(state);
        for (unsigned rank = 0; copy.mask >> rank; ++rank) {
            if (copy.mask >> rank & 1u) copy.carry_out_in(rank);
        }
    }
};

inline void cp_async_bulk(void* to, const void* from, unsigned bytes, unsigned long long* barrier, unsigned mask,
                          Site site) {
    check_aligned("cp.async.bulk", to, 16, site);
    check_aligned("cp.async.bulk", from, 16, site);
    if (bytes % 16) fail(site, "cp.async.bulk of %u bytes: must be a multiple of 16", bytes);
    shared_address(to, site);
    shared_address(barrier, site);
    check_range(to, bytes);
    check_range(from, bytes);
    const BulkCopy copy{to, from, bytes, barrier, mask, site};
    defer_until_stuck(BulkCopy::carry_out, &copy, sizeof copy);
}

}  // namespace host_cuda

namespace ptx {

inline void mbarrier_init(unsigned long long* barrier, unsigned count, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::shared_address(barrier, site);
    if (count < 1 || count >= 1 << 20) host_cuda::fail(site, "mbarrier: count %u is not from 1 to 2^20 - 1", count);
    host_cuda::Mbarrier fresh{};
    fresh.count = fresh.pending = count;
    fresh.store(barrier);
}
inline void mbarrier_arrive(unsigned long long* barrier, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::shared_address(barrier, site);
    host_cuda::mbarrier_arrive(barrier, 0, site);
}
inline void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes,
                                      host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::shared_address(barrier, site);
    host_cuda::mbarrier_arrive(barrier, bytes, site);
}
inline bool mbarrier_try_wait_parity(unsigned long long* barrier, unsigned parity,
                                     host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::shared_address(barrier, site);
    const auto over = [=] { return host_cuda::Mbarrier::load(barrier).phase != parity; };
    if (!over()) host_cuda::poll(site);
    if (!over()) return false;
    host_cuda::went_on();
    return true;
}
inline void cp_async_bulk(void* to, const void* from, unsigned bytes, unsigned long long* barrier,
                          host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::cp_async_bulk(to, from, bytes, barrier, 1u << host_cuda::cluster_rank(), site);
}
inline void cp_async_mbarrier_arrive_noinc(unsigned long long* barrier,
                                           host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::shared_address(barrier, site);
    const host_cuda::Arrival arrival{barrier, site};
    host_cuda::defer_behind_copies(host_cuda::Arrival::carry_out, &arrival, sizeof arrival);
}
// What a missing fence does, only a GPU shows.
inline void fence_proxy_async() {}

}  // namespace ptx
