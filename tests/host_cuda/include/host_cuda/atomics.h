// Atomics. One machine thread runs everything, so each is what it says; integers wrap, as on the device.
#pragma once

namespace host_cuda {
template <class T, class Change>
T atomically(T* address, Change change) {
    const T old = *address;
    *address = change(old);
    return old;
}
}  // namespace host_cuda

#define HOST_CUDA_ATOMIC(name, T, expression)                                          \
    inline T name(T* address, T value) {                                               \
        return host_cuda::atomically(address, [=](T old) -> T { return expression; }); \
    }
HOST_CUDA_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
HOST_CUDA_ATOMIC(atomicAdd, unsigned, old + value)
HOST_CUDA_ATOMIC(atomicAdd, unsigned long long, old + value)
HOST_CUDA_ATOMIC(atomicAdd, float, old + value)
HOST_CUDA_ATOMIC(atomicAdd, double, old + value)
HOST_CUDA_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
HOST_CUDA_ATOMIC(atomicSub, unsigned, old - value)
HOST_CUDA_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
#define HOST_CUDA_ATOMICS(T)                                                                         \
    HOST_CUDA_ATOMIC(atomicMax, T, old < value ? value : old)                                        \
    HOST_CUDA_ATOMIC(atomicMin, T, value < old ? value : old)                                        \
    HOST_CUDA_ATOMIC(atomicAnd, T, old& value)                                                       \
    HOST_CUDA_ATOMIC(atomicOr, T, old | value)                                                       \
    HOST_CUDA_ATOMIC(atomicXor, T, old ^ value)                                                      \
    HOST_CUDA_ATOMIC(atomicExch, T, (static_cast<void>(old), value))                                 \
    inline T atomicCAS(T* address, T expected, T value) {                                            \
        return host_cuda::atomically(address, [=](T old) { return old == expected ? value : old; }); \
    }
HOST_CUDA_ATOMICS(int)
HOST_CUDA_ATOMICS(unsigned)
HOST_CUDA_ATOMICS(unsigned long long)
HOST_CUDA_ATOMIC(atomicMax, long long, old < value ? value : old)
HOST_CUDA_ATOMIC(atomicMin, long long, value < old ? value : old)
#undef HOST_CUDA_ATOMICS
#undef HOST_CUDA_ATOMIC
