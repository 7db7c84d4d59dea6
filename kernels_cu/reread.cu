// Reread: reads pieces of a buffer again and again, to measure how fast a cache gives them.
//
//   words  uint32 [pieces, PIECE]    PIECE is 4 * READS * THREADS
//   sums   uint32 [blocks, THREADS]  what each thread has read, added up: else nothing would be read
//
// Block b reads piece b modulo pieces, then the one `step` further on, and so on, `rounds` of them; step < pieces.
// With NEAR through the level-1 cache, else past it.
#include "common.cuh"

#if !defined(THREADS) || !defined(READS) || !defined(NEAR)
#error "THREADS, READS or NEAR not defined"
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
reread(const unsigned* __restrict__ words, unsigned* __restrict__ sums, int pieces, int step, int rounds) {
    const uint4* const own = reinterpret_cast<const uint4*>(words) + threadIdx.x;
    int piece = blockIdx.x % pieces;
    unsigned sum = 0;
    for (int round = 0; round < rounds; ++round) {
        const uint4* const at = own + static_cast<long long>(piece) * (READS * THREADS);
#pragma unroll
        for (int i = 0; i < READS; ++i) {
            const uint4 read = NEAR ? __ldg(at + i * THREADS) : __ldcg(at + i * THREADS);
            sum += read.x + read.y + read.z + read.w;
        }
        piece += step;
        if (piece >= pieces) piece -= pieces;
    }
    sums[global_thread()] = sum;
}
