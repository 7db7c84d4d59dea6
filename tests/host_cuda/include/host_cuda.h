// Everything a kernel may use, for g++: included ahead of each kernel by build.py.
// What is missing here does not compile, which is how we learn that a new kernel needs it.
#ifndef HOST_CUDA_H
#define HOST_CUDA_H

#include <cassert>
#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "host_cuda/atomics.h"
#include "host_cuda/math.h"
#include "host_cuda/threads.h"
#include "host_cuda/warp.h"
#include "ptx.cuh"

#endif  // HOST_CUDA_H
