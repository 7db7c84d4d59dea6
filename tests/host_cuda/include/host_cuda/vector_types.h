// The vector types, aligned as on the device, so that UndefinedBehaviorSanitizer sees a misaligned access.
#pragma once

#define HOST_CUDA_VECTORS(T, name, align2, align4)                     \
    struct name##1 { T x; };                                           \
    struct alignas(align2) name##2 { T x, y; };                        \
    struct name##3 { T x, y, z; };                                     \
    struct alignas(align4) name##4 { T x, y, z, w; };                  \
    inline name##1 make_##name##1(T x) { return {x}; }                 \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

HOST_CUDA_VECTORS(signed char, char, 2, 4)
HOST_CUDA_VECTORS(unsigned char, uchar, 2, 4)
HOST_CUDA_VECTORS(short, short, 4, 8)
HOST_CUDA_VECTORS(unsigned short, ushort, 4, 8)
HOST_CUDA_VECTORS(int, int, 8, 16)
HOST_CUDA_VECTORS(unsigned, uint, 8, 16)
HOST_CUDA_VECTORS(float, float, 8, 16)
HOST_CUDA_VECTORS(long long, longlong, 16, 16)
HOST_CUDA_VECTORS(unsigned long long, ulonglong, 16, 16)
HOST_CUDA_VECTORS(double, double, 16, 16)

#undef HOST_CUDA_VECTORS
