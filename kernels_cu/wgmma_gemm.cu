// WGMMA GEMM: sums[m, n] = sum_k a[m, k] * w[n, k], 16-bit or tf32 operands, fp32 sums; then bias and what EPILOGUE says.
//
//   a       operands [.., a_row]          the rows: see ROWS in wgmma_operands.cuh
//   starts  int32    [rows]               where each row begins in x or ids, ascending; ROWS 1 and 2
//   ids     int32    [tokens]             ROWS 2
//   packed  operands [depth / BK, packed_row, 128 bytes]   the weights, from pack_tiles
//   bias    float32  [columns]            with BIAS 1
//   gate    float32  [rows, EXPERTS]      EPILOGUE 4, 5
//   owners  int32    [rows]               each row's row of y, equal ones together; EPILOGUE 2
//   y       OUTPUT   [.., stride]         from `column` on: see fragment_epilogue.cuh
//
// Every row is padded to whole steps of BK with zeros. With SPLIT an operand is the sum of two halves; the low ones lie
// a_low, packed_low, y_low further on. z is a batch: a, packed and y go on by so many operands each time. `scale` undoes
// that of the weights. Any number of clusters takes the tiles in turn, so that loads run ahead over the end of a tile;
// which values are stored while the next one is multiplied, fragment_held.cuh says.
//
// Tensor cores cut off as they add up: after PROMOTE of k partial sums go into ordinary registers (0: never).
#include "bands.cuh"
#include "dependent.cuh"
#include "fragment_held.cuh"
#include "wgmma_operands.cuh"

#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER, 1, 1)
#else
#define TOGETHER
#endif

static_assert(EPILOGUE != EPILOGUE_RESIDUAL || ROWS == ROWS_MATRIX, "rows that lie one after the other");

// The tiles of a product, in the order in which they are made.
struct Tiles {
    int down, across;
    long long row;
    int column;

    __device__ __forceinline__ Tiles(long long rows, int columns)
        : down(static_cast<int>((rows + BM * CLUSTER - 1) / (BM * CLUSTER)) * CLUSTER), across((columns + BN - 1) / BN) {}

    __device__ __forceinline__ int count() const { return down * across; }

    __device__ __forceinline__ void find(int number) {
        const TileAt at(number, down, across);
        row = static_cast<long long>(at.down) * BM;
        column = at.across * BN;
    }
};

// A warp has read a stage: tells all blocks that may write into it.
__device__ __forceinline__ void release(unsigned long long* empty) {
    const unsigned lane = threadIdx.x % 32;
#if CLUSTER > 1
    if (lane < CLUSTER) ptx::mbarrier_arrive_cluster_relaxed(empty, lane);
#else
    if (lane == 0) ptx::mbarrier_arrive(empty);
#endif
}

template <int COUNT>
__device__ __forceinline__ void add_to(float (&total)[COUNT], const float (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) total[i] += sums[i];
}

// The products of one stage.
__device__ __forceinline__ void multiply_stage(float (&sums)[TALL][BN / 2], unsigned long long a, unsigned long long b,
                                               int add) {
#pragma unroll
    for (int k = 0; k < ROW; k += 32) {
#pragma unroll
        for (int m = 0; m < TALL; ++m) {
            const unsigned long long high_a = a + ((m * 64 * ROW + k) >> 4), high_b = b + (k >> 4);
            const int more = k > 0 ? 1 : add;
#if SPLIT
            multiply(sums[m], high_a + (A_TILE >> 4), high_b, more);
            multiply(sums[m], high_a, high_b + (B_TILE >> 4), 1);
            multiply(sums[m], high_a, high_b, 1);
#else
            multiply(sums[m], high_a, high_b, more);
#endif
        }
    }
}

extern "C" __global__ void TOGETHER __launch_bounds__(THREADS, 1)
wgmma_gemm(const unsigned char* __restrict__ a, const int* __restrict__ starts, const int* __restrict__ ids,
           const unsigned char* __restrict__ packed, const float* __restrict__ bias, const float* __restrict__ gate,
           const int* __restrict__ owners, unsigned char* __restrict__ y, long long rows, int columns, int depth, int a_row,
           int packed_row, int stride, int column, int dimension, long long a_low, long long packed_low, long long y_low,
           long long a_step, long long packed_step, long long y_step, float scale) {
    extern __shared__ __align__(1024) unsigned char shared[];
    Stages stages(shared);
    if (threadIdx.x == 0) stages.begin();
#if CLUSTER > 1
    ptx::cluster_sync();
#else
    __syncthreads();
#endif
    wait_for_kernels_before();
    const int steps = depth / BK;
    Tiles tiles(rows, columns);

    if (threadIdx.x < 128) {
        ptx::setmaxnreg_dec<BRINGS>();
        const WeightReader weights{packed + blockIdx.z * packed_step * SIZE, packed_low * SIZE, packed_row};
        a += blockIdx.z * a_step * SIZE;
        for (int number = blockIdx.x; number < tiles.count(); number += gridDim.x) {
            tiles.find(number);
            RowReader reader(a, a_low * SIZE, starts, ids, tiles.row, rows, a_row, dimension);
            for (int step = 0; step < steps; ++step) {
                reader.prepare();
                stages.wait_empty();
                if (threadIdx.x == 0) {
                    ptx::mbarrier_arrive_expect_tx(stages.full_here(), reader.bulk_bytes() + weights.bytes(tiles.column));
                    weights.copy(stages, step, tiles.column);
                }
                reader.copy(stages, step);
                stages.next();
            }
        }
    } else {
        ptx::setmaxnreg_inc<MULTIPLIES>();
        const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4;
        const unsigned long long a_first =
            ptx::wgmma_descriptor(shared + group * TALL * 64 * ROW, 0, 8 * ROW, ptx::swizzle_128);
        const unsigned long long b_first =
            ptx::wgmma_descriptor(shared + HALVES * A_TILE, 0, 8 * ROW, ptx::swizzle_128);
        Y* const outputs = reinterpret_cast<Y*>(y) + blockIdx.z * y_step + column;
        HeldPairs<BN / 8> held;
        for (int number = blockIdx.x; number < tiles.count(); number += gridDim.x) {
            tiles.find(number);
            const int there = static_cast<int>(min(rows - tiles.row, static_cast<long long>(BM)));
            FragmentPlace place{group * TALL * 64 + warp * 16, tiles.column, there, columns};
            place.stride = stride;
            place.y_low = y_low;
            place.x = reinterpret_cast<const Operand*>(a) + blockIdx.z * a_step + tiles.row * a_row;
            place.x_row = a_row;
            place.x_low = a_low;
            place.scale = scale;
            place.bias = bias;
            place.gate = gate + (EPILOGUE >= EPILOGUE_EXPERTS ? tiles.row * EXPERTS : 0);
            place.owners = owners + (EPILOGUE == EPILOGUE_GETMAX ? tiles.row : 0);
            float sums[TALL][BN / 2];
#if PROMOTE
            float total[TALL][BN / 2] = {};
#endif
            unsigned long long* before = nullptr;  // the barrier of a stage that may still be read
            int add = 0;
            const auto begin_step = [&] {
                stages.wait_full();
                if (!BULK) ptx::fence_proxy_async();  // those copies were ordinary writes
                ptx::wgmma_fence();
                const unsigned long long here = stages.stage * (STAGE >> 4);
                multiply_stage(sums, a_first + here, b_first + here, add);
                add = 1;
                ptx::wgmma_commit_group();
            };
            const auto end_step = [&](int step) {
                ptx::wgmma_wait_group<1>();
                if (before) release(before);
                before = stages.empty_here();
                stages.next();
#if PROMOTE
                if ((step + 1) % (PROMOTE / BK) == 0 || step + 1 == steps) {
                    ptx::wgmma_wait_group<0>();
#pragma unroll
                    for (int m = 0; m < TALL; ++m) add_to(total[m], sums[m]);
                    add = 0;
                }
#endif
            };
#pragma unroll  // so that a part's registers are known
            for (int part = 0; part < held.PARTS; ++part) {
                if (part < steps) begin_step();
                held.exchange(part, place);
                if (part < steps) end_step(part);
            }
            for (int step = held.PARTS; step < steps; ++step) {
                begin_step();
                end_step(step);
            }
            ptx::wgmma_wait_group<0>();
            release(before);
            place.y = outputs + (EPILOGUE == EPILOGUE_GETMAX ? 0 : tiles.row * stride);
#pragma unroll
            for (int m = 0; m < TALL; ++m) {
#if PROMOTE
                held.finish(reinterpret_cast<float(&)[BN / 8][4]>(total[m]), place);
#else
                held.finish(reinterpret_cast<float(&)[BN / 8][4]>(sums[m]), place);
#endif
                place.row += 64;
            }
        }
        held.store_rest();
    }
#if CLUSTER > 1
    ptx::cluster_sync();  // no block ends while another one may write into its memory
#endif
}
