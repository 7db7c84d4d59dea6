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

inline void mbarrier_arrive(unsigned long long* at, unsigned expected_bytes, Site site) {
    shared_address(at, site);
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

struct BulkCopy {
    void* to;
    const void* from;
    unsigned bytes;
    unsigned long long* barrier;

    static void carry_out(const void* state) {
        const BulkCopy copy = *static_cast<const BulkCopy*>(state);
        std::memcpy(copy.to, copy.from, copy.bytes);
        Mbarrier barrier = Mbarrier::load(copy.barrier);
        barrier.bytes -= copy.bytes;
        barrier.end_phase_if_complete();
        barrier.store(copy.barrier);
    }
};

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
    host_cuda::mbarrier_arrive(barrier, 0, site);
}
inline void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes,
                                      host_cuda::Site site = host_cuda::Site::here()) {
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
    host_cuda::check_aligned("cp.async.bulk", to, 16, site);
    host_cuda::check_aligned("cp.async.bulk", from, 16, site);
    if (bytes % 16) host_cuda::fail(site, "cp.async.bulk of %u bytes: must be a multiple of 16", bytes);
    host_cuda::shared_address(to, site);
    host_cuda::shared_address(barrier, site);
    host_cuda::check_range(to, bytes);
    host_cuda::check_range(from, bytes);
    const host_cuda::BulkCopy copy{to, from, bytes, barrier};
    host_cuda::defer_until_stuck(host_cuda::BulkCopy::carry_out, &copy, sizeof copy);
}
// What a missing fence does, only a GPU shows.
inline void fence_proxy_async() {}

}  // namespace ptx
