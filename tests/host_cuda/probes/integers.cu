// The integer and rounding functions on pairs of words, one row of results each. A probe.
//
//   a, b  uint32 [count]
//   x     float32 [count]
//   out   uint32 [18, count]

extern "C" __global__ void __launch_bounds__(256)
integers(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ x,
         unsigned* __restrict__ out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned p = a[i], q = b[i];
    const unsigned long long both = static_cast<unsigned long long>(q) << 32 | p;
    const unsigned results[] = {
        static_cast<unsigned>(__popc(p)),
        static_cast<unsigned>(__clz(static_cast<int>(p))),
        static_cast<unsigned>(__ffs(static_cast<int>(p))),
        __brev(p),
        __byte_perm(p, q, p >> 7),
        __umulhi(p, q),
        __funnelshift_l(p, q, q % 40),
        __funnelshift_r(p, q, q % 40),
        static_cast<unsigned>(__popcll(both)),
        static_cast<unsigned>(__clzll(static_cast<long long>(both))),
        static_cast<unsigned>(__ffsll(static_cast<long long>(both))),
        static_cast<unsigned>(__float2int_rn(x[i])),
        static_cast<unsigned>(__float2int_rz(x[i])),
        static_cast<unsigned>(__float2int_rd(x[i])),
        static_cast<unsigned>(__float2int_ru(x[i])),
        __float2uint_rn(x[i]),
        __float_as_uint(__saturatef(x[i])),
        static_cast<unsigned>(min(static_cast<int>(p), static_cast<int>(q))),
    };
    for (int row = 0; row < 18; ++row) out[row * count + i] = results[row];
}
