// SGEMM: sums[m, n] = sum_k a[m, k] * packed[k, n] + bias[n], in fp32.
//
//   a       float32 the rows' values: see ROWS in sgemm_operands.cuh
//   starts  int32   [rows]                where each row begins in x or ids, ascending; ROWS 1 and 2
//   ids     int32   [tokens]              ROWS 2
//   packed  float32 [depth, packed_row]   the weights, k-major; packed_row is a multiple of 4, at least `columns`
//   bias    float32 [columns]             with BIAS 1
//   gate    float32 [rows, EXPERTS]       EPILOGUE 4
//   owners  int32   [rows]                each row's row of y, equal ones together; EPILOGUE 2
//   y       float32 [..., stride]         from `column` on: see EPILOGUE in sgemm_epilogue.cuh
//
// z is a batch: a, packed and y go on by so many floats each time. k runs upwards in one chain, so all tiles give the
// same bits. Operands come by cp.async, STAGES - 1 steps ahead; a thread reads the next k's while it multiplies one's.
#include "bands.cuh"
#include "sgemm_epilogue.cuh"
#include "sgemm_operands.cuh"
#include "sgemm_tile.cuh"

#if !defined(ROWS) || !defined(EPILOGUE) || !defined(BIAS) || !defined(EXPERTS)
#error "ROWS, EPILOGUE, BIAS or EXPERTS not defined"
#endif

static_assert(EPILOGUE != EPILOGUE_RESIDUAL || ROWS == ROWS_MATRIX, "rows that lie one after the other");

// Of a thread, about, and enough: sums, two sets of operands, addresses; and more where rows must be found.
constexpr int FINDING = ROWS == ROWS_IDS ? 16 : ROWS == ROWS_WINDOWS ? 4 : 0;
constexpr int ESTIMATE = TM * TN + 2 * (TM + TN) + A_ROWS + 28 + FINDING;
constexpr int REGISTERS = ESTIMATE > 72 ? ESTIMATE : 72;
constexpr int FITTING = 512 / REGISTERS * 128 / THREADS;  // 4 schedulers hold 512 registers of whole warps each
constexpr int RESIDENT = FITTING > 1 ? FITTING : 1;       // blocks that a processor shall hold

template <int COUNT, int STEP>
__device__ __forceinline__ void read_quads(float (&to)[COUNT], const float* from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 quad = *reinterpret_cast<const float4*>(from + i / 4 * STEP);
        to[i] = quad.x, to[i + 1] = quad.y, to[i + 2] = quad.z, to[i + 3] = quad.w;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
sgemm(const float* __restrict__ a, const int* __restrict__ starts, const int* __restrict__ ids,
      const float* __restrict__ packed, const float* __restrict__ bias, const float* __restrict__ gate,
      const int* __restrict__ owners, float* __restrict__ y, long long rows, int columns, int depth, int packed_row,
      int stride, int column, int dimension, long long a_step, long long packed_step, long long y_step) {
    extern __shared__ float4 shared[];
    float* const stages = reinterpret_cast<float*>(shared);

    const int tiles_across = (columns + BN - 1) / BN;
    const int tiles_down = static_cast<int>((rows + BM - 1) / BM);
    const TileAt tile_at(blockIdx.x, tiles_down, tiles_across);
    const long long block_row = static_cast<long long>(tile_at.down) * BM;
    const int block_column = tile_at.across * BN;
    const int block_rows = static_cast<int>(min(rows - block_row, static_cast<long long>(BM)));

    Copies copies{{a + blockIdx.z * a_step, starts, ids, block_row, block_rows, depth, dimension},
                  {packed + blockIdx.z * packed_step, packed_row, block_column},
                  stages,
                  depth};
    for (int i = 0; i < STAGES - 1; ++i) copies.next();

    // Of each quarter of a warp, lanes 0 and 1, or 0 and 2, read the same quad: so two quarters are served at once.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int eighth = lane / 2 % 8, fourth = lane % 2 + lane / 16 * 2;
    const int row = warp / WARPS_ACROSS * (DOWN * TM) + (DOWN == 8 ? eighth : fourth) * 4;
    const int block_n = warp % WARPS_ACROSS * (ACROSS * TN) + (DOWN == 8 ? fourth : eighth) * 4;
    const float* const a_read = stages + row;
    const float* const b_read = stages + BK * PITCH + block_n;
    int stage = 0;

    Sums sums = {};
    float a_now[2][TM], b_now[2][TN];
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();
    read_quads<TM, ROW_STEP>(a_now[0], a_read);
    read_quads<TN, COLUMN_STEP>(b_now[0], b_read);

    for (int tile = 0; tile < depth; tile += BK) {
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {  // what follows has come for all threads, and all have read what is overwritten next
                stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
                ptx::cp_async_wait_group<STAGES - 2>();
                __syncthreads();
            }
            const int next = (k + 1) % BK;
            read_quads<TM, ROW_STEP>(a_now[next % 2], a_read + stage + next * PITCH);
            read_quads<TN, COLUMN_STEP>(b_now[next % 2], b_read + stage + next * BN);
            if (k == 0) copies.next();
#pragma unroll
            for (int m = 0; m < TM; ++m) {
#pragma unroll
                for (int n = 0; n < TN; ++n) sums[m][n] = fmaf(a_now[k % 2][m], b_now[k % 2][n], sums[m][n]);
            }
        }
    }

    Place place{row, block_column + block_n, block_rows, columns, y + blockIdx.z * y_step + column, stride};
    add_bias(sums, place, bias);
#if EPILOGUE == EPILOGUE_GETMAX
    store_largest(sums, place, owners + block_row);
#else
    place.y += block_row * stride;
#if EPILOGUE == EPILOGUE_EXPERTS
    store_experts(sums, place, gate + block_row * EXPERTS);
#else
#if EPILOGUE == EPILOGUE_RELU || EPILOGUE == EPILOGUE_RESIDUAL
    apply_relu(sums);
#endif
#if EPILOGUE == EPILOGUE_RESIDUAL
    add_rows(sums, place, a + blockIdx.z * a_step + block_row * depth);
#endif
    store(sums, place);
#endif
#endif
}
