// y = x backwards, plus one, by a kernel that may begin before the one ahead of it in the stream has ended.
//
//   x, y  int32 [count]
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(64)
early(const int* __restrict__ x, int* __restrict__ y, int count) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    if (i < count) y[i] = x[count - 1 - i] + 1;
}
