// PTX: one small function an instruction, named after it. No other file of kernels_cu/ holds assembly.
//
// The tests compile kernels for the CPU with twins of these functions (tests/host_cuda/include/ptx.cuh). The twin is
// included first and has the same guard, which is why there is a guard here and no #pragma once.
//
// Pointers to shared memory are generic pointers, as everywhere in CUDA C.
#ifndef ACCEL_PTX_CUH
#define ACCEL_PTX_CUH

namespace ptx {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ---- sm_80: asynchronous copies from global into shared memory, 4, 8 or 16 bytes a thread
// Both addresses are multiples of the size. The first `bytes` bytes are copied and the rest are zeros.

__device__ __forceinline__ void cp_async_4(void* to, const void* from, int bytes = 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::
                 "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_8(void* to, const void* from, int bytes = 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::
                 "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_16(void* to, const void* from, int bytes = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
                 "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
// Ends this thread's group of copies.
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `open` of this thread's groups are under way.
template <int open>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

// ---- sm_80: matrix fragments
// Lanes 0-7 give the rows (16 bytes each) of the first 8x8 matrix of 16-bit values, lanes 8-15 of the second, ...
// Lane l receives of each matrix row l / 4, columns l % 4 * 2 and the next; with trans, of the transposed matrix.

__device__ __forceinline__ void ldmatrix_x1(unsigned (&r)[1], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x1_trans(unsigned (&r)[1], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// ---- sm_80: d [16, 8] += a [16, k] times b [k, 8], in fp32. With g = lane / 4 and t = lane % 4, a lane holds
//   d: rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t, 2t + 1
//   16-bit a (two of a row to a register): rows g, g + 8, g, g + 8 from columns 2t, 2t, 2t + 8, 2t + 8
//   16-bit b (two of a column to a register): column g from rows 2t, 2t + 8
//   tf32 a: rows g, g + 8, g, g + 8, columns t, t, t + 4, t + 4;  tf32 b: column g, rows t, t + 4

#define ACCEL_PTX_MMA(name, shape)                                                                               \
    __device__ __forceinline__ void name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {        \
        asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                        \
    }
ACCEL_PTX_MMA(mma_m16n8k16_f16, "m16n8k16.row.col.f32.f16.f16.f32")
ACCEL_PTX_MMA(mma_m16n8k16_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
ACCEL_PTX_MMA(mma_m16n8k8_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef ACCEL_PTX_MMA

// A float rounded to tf32 (10 bits of mantissa): to nearest, ties away from zero.
__device__ __forceinline__ unsigned cvt_rna_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// ---- Named barriers: 0 is __syncthreads(), 1 to 15 are free. `threads` counts those who wait and those who arrive.

__device__ __forceinline__ void barrier_sync(int id, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The same to nearest, ties to even.
__device__ __forceinline__ unsigned cvt_rn_tf32(float x) {
    unsigned bits;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// What ldmatrix_x4 receives, written back: lanes 0-7 say where the rows of the first matrix go, lanes 8-15 ...
__device__ __forceinline__ void stmatrix_x4(void* row, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::
                 "r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// ---- sm_90: a kernel may be launched while the one before it in its stream is still running: see dependent.cuh.

// Lets the next kernel begin as soon as all blocks have come here or ended, and there is room for its own.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Waits until the kernels before this one are done, and what they wrote can be read.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---- sm_90: barriers in shared memory. A phase ends when `count` arrivals and all bytes expected have come.

__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Whether the phase of this parity is over (the first has parity 0), perhaps after a while: ask in a loop.
__device__ __forceinline__ bool mbarrier_try_wait_parity(unsigned long long* barrier, unsigned parity) {
    unsigned over;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return over;
}
// Copies `bytes` bytes, as one thread's work, and then tells the barrier so. All three are multiples of 16.
__device__ __forceinline__ void cp_async_bulk(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                     "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
// Arrives when all that this thread copied by cp_async so far is there; it is one of the `count` arrivals.
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(unsigned long long* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Ordinary writes to shared memory before it are seen by bulk copies and wgmma after it.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- sm_90: clusters. A kernel says __cluster_dims__(size, 1, 1); blocks of a cluster run together, and a block must
// not end while another may still write into its shared memory or arrive at its barriers.

// The number of this block in its cluster.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// Everybody of every block of the cluster arrives, then waits; in between a thread may do other things.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
// Barriers made before it, and before cluster_sync(), are seen by the other blocks and by bulk copies.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives at the barrier that lies at the same place in the shared memory of block `rank`.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank) {
    asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::
                     "r"(shared_address(barrier)), "r"(rank) : "memory");
}
// The same of a thread that read by wgmma alone, and has waited for that. No ordinary access is ordered, which would cost
// a fence of the whole GPU.
__device__ __forceinline__ void mbarrier_arrive_cluster_relaxed(unsigned long long* barrier, unsigned rank) {
    asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}" ::
                     "r"(shared_address(barrier)), "r"(rank) : "memory");
}
// mbarrier_try_wait_parity at a barrier at which other blocks arrive: what they did before is seen after it.
__device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(unsigned long long* barrier, unsigned parity) {
    unsigned over;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}" : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return over;
}
// cp_async_bulk into every block that has its bit in `mask`: the bytes, and the word to the barrier, go to the same
// places in the shared memory of each.
__device__ __forceinline__ void cp_async_bulk_multicast(void* to, const void* from, unsigned bytes,
                                                        unsigned long long* barrier, unsigned short mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], %2, [%3], %4;" ::
                     "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(mask)
                 : "memory");
}

#endif  // sm_90

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- sm_90a: products of a warpgroup (four warps, the first a multiple of four) from shared memory

// All warps of a warpgroup give registers back, or ask for more: a multiple of 8 from 24 to 256 for each thread.
template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Before the first product, and whenever registers of a product were touched in between.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int open>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(open) : "memory");
}

// How 16-byte pieces of a tile's rows are exchanged against bank conflicts; a row has as many bytes as the name says.
enum Swizzle : unsigned { swizzle_none = 0, swizzle_128 = 1, swizzle_64 = 2, swizzle_32 = 3 };

// A tile in shared memory, its rows along k. `stride` bytes lie between groups of eight rows. Without swizzle, 8 rows
// of 16 bytes lie together, and `leading` bytes between those of one group of rows; with it `leading` means nothing.
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* tile, unsigned leading, unsigned stride,
                                                               Swizzle swizzle) {
    unsigned long long descriptor = (shared_address(tile) & 0x3FFFFu) >> 4;
    descriptor |= static_cast<unsigned long long>((leading & 0x3FFFFu) >> 4) << 16;
    descriptor |= static_cast<unsigned long long>((stride & 0x3FFFFu) >> 4) << 32;
    return descriptor | static_cast<unsigned long long>(swizzle) << 62;
}

// d [64, n] = a [64, k] times b [n, k] transposed, plus d unless `add` is 0; a and b by descriptors, 16-bit or, of
// floats of which the last 13 bits do not count, tf32. In its warpgroup, thread t of warp w holds of columns
// 8 j .. 8 j + 7 what it would of mma, of rows 16 w .. 16 w + 15.
#define ACCEL_PTX_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
                        "+f"(d[i + 6]), "+f"(d[i + 7])
#define ACCEL_PTX_D32(i) ACCEL_PTX_D8(i), ACCEL_PTX_D8(i + 8), ACCEL_PTX_D8(i + 16), ACCEL_PTX_D8(i + 24)
#define ACCEL_PTX_D64(i) ACCEL_PTX_D32(i), ACCEL_PTX_D32(i + 32)
#define ACCEL_PTX_D96(i) ACCEL_PTX_D64(i), ACCEL_PTX_D32(i + 64)
#define ACCEL_PTX_D128(i) ACCEL_PTX_D64(i), ACCEL_PTX_D64(i + 64)
#define ACCEL_PTX_R32                                                                                     \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21," \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ACCEL_PTX_R64                                                                                     \
    ACCEL_PTX_R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48," \
    "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ACCEL_PTX_R96                                                                                     \
    ACCEL_PTX_R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80," \
    "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ACCEL_PTX_R128                                                                                    \
    ACCEL_PTX_R96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110," \
    "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// `transposed` is what 16-bit tiles may be and tf32 may not.
#define ACCEL_PTX_WGMMA(n, registers, a_at, b_at, add_at, depth, type, transposed)                           \
    __device__ __forceinline__ void wgmma_m64n##n##k##depth##_##type(                                        \
        float (&d)[registers], unsigned long long a, unsigned long long b, int add) {                        \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_at ", 0;\n"                                   \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k" #depth ".f32." #type "." #type               \
                     " {" ACCEL_PTX_R##registers "}, %" #a_at ", %" #b_at ", p, 1, 1" transposed ";\n}"      \
                     : ACCEL_PTX_D##registers(0) : "l"(a), "l"(b), "r"(add));                                \
    }
#define ACCEL_PTX_WGMMAS(n, registers, a_at, b_at, add_at)                \
    ACCEL_PTX_WGMMA(n, registers, a_at, b_at, add_at, 16, f16, ", 0, 0")  \
    ACCEL_PTX_WGMMA(n, registers, a_at, b_at, add_at, 16, bf16, ", 0, 0") \
    ACCEL_PTX_WGMMA(n, registers, a_at, b_at, add_at, 8, tf32, "")
ACCEL_PTX_WGMMAS(64, 32, 32, 33, 34)
ACCEL_PTX_WGMMAS(128, 64, 64, 65, 66)
ACCEL_PTX_WGMMAS(192, 96, 96, 97, 98)
ACCEL_PTX_WGMMAS(256, 128, 128, 129, 130)
#undef ACCEL_PTX_WGMMAS
#undef ACCEL_PTX_WGMMA
#undef ACCEL_PTX_R128
#undef ACCEL_PTX_R96
#undef ACCEL_PTX_R64
#undef ACCEL_PTX_R32
#undef ACCEL_PTX_D128
#undef ACCEL_PTX_D96
#undef ACCEL_PTX_D64
#undef ACCEL_PTX_D32
#undef ACCEL_PTX_D8

#endif  // sm_90a

}  // namespace ptx

#endif  // ACCEL_PTX_CUH
