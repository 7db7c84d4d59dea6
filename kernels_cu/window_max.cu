// Window maximum: features[s, first + c] = max(0, y[w, c] over the windows w of sentence s). A NaN wins.
//
//   y         float32 [windows, filters]   bias included
//   owners    int32   [windows]            each window's sentence; windows of a sentence lie together
//   features  float32 [sentences, pitch]   zeros before; columns first .. first + filters - 1 are written
//
// A thread goes down ROWS windows of one filter and writes when the sentence changes. Grid: stretches of windows,
// tiles of THREADS filters.
#include "largest.cuh"

#if !defined(THREADS) || !defined(ROWS)
#error "THREADS or ROWS not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
window_max(const float* __restrict__ y, const int* __restrict__ owners, float* __restrict__ features,
           long long windows, int filters, int first, int pitch) {
    const int filter = blockIdx.y * THREADS + threadIdx.x;
    if (filter >= filters) return;
    long long window = static_cast<long long>(blockIdx.x) * ROWS;
    const long long end = window + ROWS < windows ? window + ROWS : windows;
    float* column = features + first + filter;
    int owner = owners[window];
    int largest = 0;
    for (; window < end; ++window) {
        if (owners[window] != owner) {
            raise(column + static_cast<long long>(owner) * pitch, largest);
            owner = owners[window];
            largest = 0;
        }
        largest = max(largest, relu_bits(y[window * filters + filter]));
    }
    raise(column + static_cast<long long>(owner) * pitch, largest);
}
