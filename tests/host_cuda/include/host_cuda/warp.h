// The operations of a warp. The lanes of the mask must all come to the same operation with the same mask, each be
// in the mask, and read only lanes that are: on the device anything else is undefined, here it is an error.
#pragma once

#include "host_cuda/runtime.h"

namespace host_cuda {

constexpr unsigned all_lanes = 0xFFFFFFFFu;

// The values of the lanes of a mask, once all have come.
template <class T>
struct Met {
    T of[32];

    Met(const char* what, unsigned mask, T mine, Site site) {
        static_assert(std::is_trivially_copyable_v<T>);
        exchange(what, mask, &mine, of, sizeof(T), site);
    }
};

template <class T>
T shuffle(const char* what, unsigned mask, T mine, unsigned source, Site site) {
    const Met<T> met(what, mask, mine, site);
    if (!(mask >> source & 1u)) fail(site, "%s reads lane %u, which mask 0x%08x leaves out", what, source, mask);
    return met.of[source];
}

// The first lane of the segment of `width` lanes that this lane is in.
inline unsigned segment(int width, Site site) {
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail(site, "shuffle width %d is no power of two up to 32", width);
    return lane() & ~static_cast<unsigned>(width - 1);
}

// Folds what the lanes of a mask bring.
template <class T, class Fold>
T reduce(const char* what, unsigned mask, T mine, Fold fold, Site site) {
    const Met<T> met(what, mask, mine, site);
    T result = mine;
    for (unsigned i = 0; i < 32; ++i) {
        if ((mask >> i & 1u) && i != lane()) result = fold(result, met.of[i]);
    }
    return result;
}

}  // namespace host_cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, host_cuda::Site site = host_cuda::Site::here()) {
    const unsigned first = host_cuda::segment(width, site);
    return host_cuda::shuffle("__shfl_sync", mask, value, first + (static_cast<unsigned>(source) & (width - 1u)), site);
}

// A lane whose source lies outside its segment keeps its own value.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 host_cuda::Site site = host_cuda::Site::here()) {
    const unsigned lane = host_cuda::lane(), first = host_cuda::segment(width, site);
    return host_cuda::shuffle("__shfl_up_sync", mask, value, delta <= lane - first ? lane - delta : lane, site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   host_cuda::Site site = host_cuda::Site::here()) {
    const unsigned lane = host_cuda::lane(), end = host_cuda::segment(width, site) + width;
    return host_cuda::shuffle("__shfl_down_sync", mask, value, delta < end - lane ? lane + delta : lane, site);
}

// An earlier segment can be read, a later one cannot.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, host_cuda::Site site = host_cuda::Site::here()) {
    const unsigned lane = host_cuda::lane(), end = host_cuda::segment(width, site) + width;
    const unsigned source = (lane ^ static_cast<unsigned>(bits)) & 31u;
    return host_cuda::shuffle("__shfl_xor_sync", mask, value, source < end ? source : lane, site);
}

inline void __syncwarp(unsigned mask = host_cuda::all_lanes, host_cuda::Site site = host_cuda::Site::here()) {
    host_cuda::exchange("__syncwarp", mask, nullptr, nullptr, 0, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    const unsigned mine = predicate ? 1u << host_cuda::lane() : 0u;
    return host_cuda::reduce("__ballot_sync", mask, mine, [](unsigned a, unsigned b) { return a | b; }, site);
}
inline int __any_sync(unsigned mask, int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::reduce("__any_sync", mask, predicate != 0, [](bool a, bool b) { return a || b; }, site);
}
inline int __all_sync(unsigned mask, int predicate, host_cuda::Site site = host_cuda::Site::here()) {
    return host_cuda::reduce("__all_sync", mask, predicate != 0, [](bool a, bool b) { return a && b; }, site);
}

// The lanes that bring the same value as this one, compared bit by bit.
template <class T>
unsigned __match_any_sync(unsigned mask, T value, host_cuda::Site site = host_cuda::Site::here()) {
    const host_cuda::Met<T> met("__match_any_sync", mask, value, site);
    unsigned same = 0;
    for (unsigned i = 0; i < 32; ++i) {
        if ((mask >> i & 1u) && std::memcmp(&met.of[i], &value, sizeof value) == 0) same |= 1u << i;
    }
    return same;
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all_match, host_cuda::Site site = host_cuda::Site::here()) {
    const host_cuda::Met<T> met("__match_all_sync", mask, value, site);
    *all_match = 1;
    for (unsigned i = 0; i < 32; ++i) {
        if ((mask >> i & 1u) && std::memcmp(&met.of[i], &value, sizeof value) != 0) *all_match = 0;
    }
    return *all_match ? mask : 0;
}

#define HOST_CUDA_REDUCE(name, T, expression)                                                         \
    inline T name(unsigned mask, T value, host_cuda::Site site = host_cuda::Site::here()) {           \
        return host_cuda::reduce(#name, mask, value, [](T a, T b) -> T { return expression; }, site); \
    }
HOST_CUDA_REDUCE(__reduce_add_sync, unsigned, a + b)
HOST_CUDA_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
HOST_CUDA_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
HOST_CUDA_REDUCE(__reduce_and_sync, unsigned, a& b)
HOST_CUDA_REDUCE(__reduce_or_sync, unsigned, a | b)
HOST_CUDA_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
HOST_CUDA_REDUCE(__reduce_add_sync, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
HOST_CUDA_REDUCE(__reduce_min_sync, int, a < b ? a : b)
HOST_CUDA_REDUCE(__reduce_max_sync, int, a < b ? b : a)
#undef HOST_CUDA_REDUCE
