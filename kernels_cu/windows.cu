// Windows: where the windows of `width` tokens begin that lie inside a sentence, `step` tokens from one to the next.
//
//   offsets  int32 [sentences + 1]   first token of each sentence
//   starts   int32 [count]           first token of each window, in order
//   owners   int32 [count]           its sentence
//
// `count` is the number of windows; of a smaller one the first are written. A block lists the windows of THREADS
// sentences, a thread those of one, and counts for itself how many come before.
#ifndef THREADS
#error "THREADS not defined"
#endif

__device__ __forceinline__ int windows_of(const int* offsets, int sentence, int width, int step) {
    const int spare = offsets[sentence + 1] - offsets[sentence] - width;
    return spare < 0 ? 0 : spare / step + 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
windows(const int* __restrict__ offsets, int* __restrict__ starts, int* __restrict__ owners,
        int sentences, int width, int step, long long count) {
    __shared__ int own[THREADS];      // windows of this block's sentences up to and with the thread's
    __shared__ int earlier[THREADS];  // windows of sentences before the block, a share a thread; summed alike
    const int lane = threadIdx.x;
    const int first = blockIdx.x * THREADS;
    const int sentence = first + lane;
    const int mine = sentence < sentences ? windows_of(offsets, sentence, width, step) : 0;
    int share = 0;
    for (int s = lane; s < first; s += THREADS) share += windows_of(offsets, s, width, step);
    own[lane] = mine;
    earlier[lane] = share;
    for (int reach = 1; reach < THREADS; reach *= 2) {
        __syncthreads();
        const int more_own = lane < reach ? 0 : own[lane - reach];
        const int more_earlier = lane < reach ? 0 : earlier[lane - reach];
        __syncthreads();
        own[lane] += more_own;
        earlier[lane] += more_earlier;
    }
    __syncthreads();
    const int place = earlier[THREADS - 1] + own[lane] - mine;
    for (int i = 0; i < mine && place + i < count; ++i) {
        starts[place + i] = offsets[sentence] + i * step;
        owners[place + i] = sentence;
    }
}
