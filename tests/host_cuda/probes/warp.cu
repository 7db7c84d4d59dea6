// One warp operation a launch, chosen by `operation`, by the lanes of `mask` of each warp. A probe.
//
//   value  int32 [threads]
//   out    int32 [threads]    lanes outside the mask write nothing

extern "C" __global__ void __launch_bounds__(64)
warp(const int* __restrict__ value, int* __restrict__ out, unsigned mask, int parameter, int width, int operation) {
    const int lane = threadIdx.x % 32, mine = value[threadIdx.x];
    if (!(mask >> lane & 1u)) return;
    int result = 0, all = 0;
    switch (operation) {
        case 0: result = __shfl_sync(mask, mine, parameter, width); break;
        case 1: result = __shfl_up_sync(mask, mine, parameter, width); break;
        case 2: result = __shfl_down_sync(mask, mine, parameter, width); break;
        case 3: result = __shfl_xor_sync(mask, mine, parameter, width); break;
        case 4: result = __ballot_sync(mask, mine > parameter); break;
        case 5: result = __any_sync(mask, mine > parameter); break;
        case 6: result = __all_sync(mask, mine > parameter); break;
        case 7: result = __match_any_sync(mask, mine); break;
        case 8: result = __match_all_sync(mask, mine / parameter, &all) + all; break;
        case 9: result = __reduce_add_sync(mask, mine); break;
        case 10: result = __reduce_min_sync(mask, mine); break;
        case 11: result = __reduce_max_sync(mask, mine); break;
        case 12: result = __reduce_and_sync(mask, static_cast<unsigned>(mine)); break;
        case 13: result = __reduce_or_sync(mask, static_cast<unsigned>(mine)); break;
        case 14: result = __reduce_xor_sync(mask, static_cast<unsigned>(mine)); break;
        case 15: result = __reduce_max_sync(mask, static_cast<unsigned>(mine)); break;
        case 16: result = static_cast<int>(__shfl_sync(mask, mine * 4294967296LL, parameter, width) >> 32); break;
        case 17: result = static_cast<int>(__shfl_xor_sync(mask, static_cast<float>(mine), parameter, width)); break;
    }
    __syncwarp(mask);
    out[threadIdx.x] = result;
}
