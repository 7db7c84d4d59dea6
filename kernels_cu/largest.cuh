// The largest of many values, none counting as less than zero, whatever the order in which they come.
// Such floats have the order of their bits, and a NaN's lie above all: the maximum is one of integers.
#pragma once

// The bits of max(value, 0); a NaN has the largest of all.
__device__ __forceinline__ int relu_bits(float value) {
    if (value != value) return 0x7FFFFFFF;
    return value > 0.0f ? __float_as_int(value) : 0;
}

// Raises a float that is at least zero to the one with these bits.
__device__ __forceinline__ void raise(float* feature, int bits) {
    if (bits) atomicMax(reinterpret_cast<int*>(feature), bits);
}
