// GEMM with a tile of sums in registers: y[m, n] = bias[n] + sum_k weight[n, k] * a[m, k].
//
//   a       float32 [rows, inputs]
//   weight  float32 [outputs, inputs]
//   bias    float32 [outputs]
//   y       float32 [rows, outputs]   written whole
//
// A block computes BM x BN of y in steps of BK, a thread TM x TN of that: with a TN of 1 a column ("1-D"), else a
// rectangle ("2-D"). For TM * TN fma a thread reads TM + TN values of shared memory; `gemm_tiled` reads 2 for one fma.
// Neighbouring threads take neighbouring columns, and a thread's own values lie a row or a column of threads apart, so
// that a warp reads from different banks. k runs upwards in one chain of fma. Grid: tiles of rows, of outputs.
#if !defined(BM) || !defined(BN) || !defined(BK) || !defined(TM) || !defined(TN)
#error "BM, BN, BK, TM or TN not defined"
#endif

constexpr int DOWN = BM / TM, ACROSS = BN / TN;  // threads
constexpr int THREADS = DOWN * ACROSS;

static_assert(BM % TM == 0 && BN % TN == 0, "a block is whole tiles of its threads");

// A step of LINES rows of a matrix [height, inputs], turned: tile[k][line], and zeros beyond the matrix.
template <int LINES>
__device__ __forceinline__ void bring(float (&tile)[BK][LINES + 1], const float* matrix, long long first,
                                      long long height, int first_k, int inputs) {
    for (int i = threadIdx.x; i < LINES * BK; i += THREADS) {
        const long long line = first + i / BK;
        const int k = first_k + i % BK;
        tile[i % BK][i / BK] = line < height && k < inputs ? matrix[line * inputs + k] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)  // one block alone would wait at its own barriers
lab_gemm(const float* __restrict__ a, const float* __restrict__ weight, const float* __restrict__ bias,
         float* __restrict__ y, long long rows, int inputs, int outputs) {
    __shared__ float a_tile[BK][BM + 1];
    __shared__ float b_tile[BK][BN + 1];
    const long long first_row = static_cast<long long>(blockIdx.x) * BM;
    const int first_output = blockIdx.y * BN;
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    float sums[TM][TN] = {};
    for (int first_k = 0; first_k < inputs; first_k += BK) {
        bring<BM>(a_tile, a, first_row, rows, first_k, inputs);
        bring<BN>(b_tile, weight, first_output, outputs, first_k, inputs);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float left[TM], right[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) left[i] = a_tile[k][down + i * DOWN];
#pragma unroll
            for (int j = 0; j < TN; ++j) right[j] = b_tile[k][across + j * ACROSS];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const long long row = first_row + down + i * DOWN;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int output = first_output + across + j * ACROSS;
            if (row < rows && output < outputs) y[row * outputs + output] = sums[i][j] + bias[output];
        }
    }
}
