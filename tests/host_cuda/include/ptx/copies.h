// cp.async: copies that a thread starts, groups, and waits for.
#pragma once

#include "host_cuda/runtime.h"

extern "C" void* __asan_region_is_poisoned(void* begin, std::size_t bytes);

namespace host_cuda {

// Touches what an asynchronous operation will touch, so that a fault is found at the line that starts it.
inline void check_range(const void* begin, std::size_t bytes) {
    if (!bytes) return;
    const auto* fault = static_cast<const char*>(__asan_region_is_poisoned(const_cast<void*>(begin), bytes));
    const volatile char touched = fault ? *fault : static_cast<const char*>(begin)[bytes - 1];
    static_cast<void>(touched);
}

inline void check_aligned(const char* what, const void* pointer, std::size_t bytes, Site site) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % bytes)
        fail(site, "%s: an address is misaligned, %zu bytes past a multiple of %zu", what, address % bytes, bytes);
}

struct Copy {
    void* to;
    const void* from;
    int bytes, size;

    static void carry_out(const void* state) {
        const Copy copy = *static_cast<const Copy*>(state);
        std::memset(copy.to, 0, copy.size);
        std::memcpy(copy.to, copy.from, copy.bytes);
    }
};

inline void cp_async(void* to, const void* from, int bytes, int size, Site site) {
    if (bytes < 0 || bytes > size) fail(site, "cp.async of %d bytes of %d", bytes, size);
    check_aligned("cp.async", to, size, site);
    check_aligned("cp.async", from, size, site);
    shared_address(to, site);
    check_range(to, size);
    check_range(from, bytes);
    const Copy copy{to, from, bytes, size};
    defer(Queue::copies, Copy::carry_out, &copy, sizeof copy);
}

}  // namespace host_cuda

namespace ptx {

inline void cp_async_4(void* to, const void* from, int bytes = 4, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::cp_async(to, from, bytes, 4, site);
}
inline void cp_async_8(void* to, const void* from, int bytes = 8, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::cp_async(to, from, bytes, 8, site);
}
inline void cp_async_16(void* to, const void* from, int bytes = 16, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::cp_async(to, from, bytes, 16, site);
}
inline void cp_async_commit_group() { host_cuda::commit_group(host_cuda::Queue::copies); }
template <int open>
void cp_async_wait_group() {
    host_cuda::wait_group(host_cuda::Queue::copies, open);
}

}  // namespace ptx
