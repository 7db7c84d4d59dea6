// Atomics and voting barriers: what all threads of a grid do to a few words. A probe.
//
//   value  int32  [threads of the grid]
//   word   int32  [10]   begins as the test gives it
//   wide   uint64 [3]
//   real   float32 [2]
//   votes  int32  [blocks, 3]

extern "C" __global__ void __launch_bounds__(96)
meeting(const int* __restrict__ value, int* __restrict__ word, unsigned long long* __restrict__ wide,
        float* __restrict__ real, int* __restrict__ votes) {
    const int mine = value[blockIdx.x * blockDim.x + threadIdx.x];
    const unsigned plain = static_cast<unsigned>(mine);
    unsigned* bits = reinterpret_cast<unsigned*>(word);
    atomicAdd(&word[0], mine);
    atomicSub(&word[1], mine);
    atomicMax(&word[2], mine);
    atomicMin(&word[3], mine);
    atomicAdd(&bits[4], plain);
    atomicMax(&bits[5], plain);
    atomicMin(&bits[6], plain);
    atomicAnd(&bits[7], plain);
    atomicOr(&bits[8], plain);
    atomicXor(&bits[9], plain);
    atomicAdd(&wide[0], static_cast<unsigned long long>(plain));
    atomicMax(&wide[1], static_cast<unsigned long long>(plain) << 20);
    atomicMin(&wide[2], static_cast<unsigned long long>(plain) << 20);
    atomicAdd(&real[0], static_cast<float>(mine % 100));
    // A maximum of floats the long way, by compare and swap.
    int* swapped = reinterpret_cast<int*>(&real[1]);
    for (int seen = *swapped; __int_as_float(seen) < static_cast<float>(mine);) {
        const int before = atomicCAS(swapped, seen, __float_as_int(static_cast<float>(mine)));
        if (before == seen) break;
        seen = before;
    }
    const int positive = __syncthreads_count(mine > 0);
    const int all = __syncthreads_and(mine > 0);
    const int any = __syncthreads_or(mine > 0);
    if (threadIdx.x == 0) {
        votes[3 * blockIdx.x] = positive;
        votes[3 * blockIdx.x + 1] = all;
        votes[3 * blockIdx.x + 2] = any != 0;
    }
}
