// Text sums: each value becomes the sum of those before it; the sum of all goes to `totals[place]`.
//
//   values  int32 [size]
//   totals  int32 [places]
//
// One block goes through all values, THREADS * EACH at a time: there is one value for thousands of bytes.
#include "text_common.cuh"

#ifndef EACH
#error "EACH not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
text_sums(int* __restrict__ values, int* __restrict__ totals, int size, int place) {
    int carry = 0;
    for (int first = 0; first < size; first += THREADS * EACH) {
        const int mine = first + static_cast<int>(threadIdx.x) * EACH;
        int own[EACH], sum = 0, total;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            own[i] = mine + i < size ? values[mine + i] : 0;
            sum += own[i];
        }
        int before = carry + sum_before(sum, total);
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (mine + i < size) values[mine + i] = before;
            before += own[i];
        }
        carry += total;
    }
    if (threadIdx.x == 0) totals[place] = carry;
}
