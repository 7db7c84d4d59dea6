// Text points: of each sentence the score of its label in ten-thousandths, and what its row needs.
//
//   logits  float32 [lines, columns]
//   scores  float32 [lines, columns]       in [0, 1] if the logits are finite
//   labels  int32 [lines]
//   at      int32 [2 * columns + POINTS + 1]   where the pieces of rows begin (text_rows.cuh)
//   points  int32 [lines]                  rounded half to even
//   blocks  int32 [blocks]                 bytes of the rows of each block
//   seen    int32 [columns]                sentences of each label are added
//   counts  int32 [counts]                 sentences with logits that are not finite are added to [BROKEN]
//
// A thread a line. Ten thousand times a float32 is exact in double, so that the score is rounded once.
#include "text_common.cuh"
#include "text_rows.cuh"

__device__ __forceinline__ bool is_finite(const float* values, int count) {
    for (int i = 0; i < count; ++i) {
        if (!(fabsf(values[i]) <= 3.402823466e38f)) return false;
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS)
text_points(const float* __restrict__ logits, const float* __restrict__ scores, const int* __restrict__ labels,
            const int* __restrict__ at, int* __restrict__ points, int* __restrict__ blocks, int* __restrict__ seen,
            int* __restrict__ counts, int lines, int columns) {
    extern __shared__ int own[];  // sentences of each label in this block
    for (int label = threadIdx.x; label < columns; label += THREADS) own[label] = 0;
    __syncthreads();

    const int line = blockIdx.x * THREADS + threadIdx.x;
    bool broken = false;
    int size = 0, total;
    if (line < lines) {
        const long long row = static_cast<long long>(line) * columns;
        const int label = labels[line];
        const double score = scores[row + label];
        broken = !is_finite(logits + row, columns);
        const int point = broken ? 0 : __double2int_rn(score * (POINTS - 1));
        points[line] = point;
        size = pieces_of(at, columns, label, point).size();
        atomicAdd(own + label, 1);
    }
    const int all_broken = __syncthreads_count(broken);
    sum_before(size, total);
    for (int label = threadIdx.x; label < columns; label += THREADS) {
        if (own[label]) atomicAdd(seen + label, own[label]);
    }
    if (threadIdx.x != 0) return;
    blocks[blockIdx.x] = total;
    if (all_broken) atomicAdd(counts + BROKEN, all_broken);
}
