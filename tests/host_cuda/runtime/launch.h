// The launch that this process runs.
#pragma once

#include <vector>

#include "host_cuda/runtime.h"
#include "memory.h"

namespace host_cuda {

extern std::vector<Slot> slots;
extern std::vector<Buffer> buffers;
extern std::size_t shared_bytes;
extern bool order_dependent;  // the orders may give different results (atomic sums of floats)

void read_launch();
void check_launch();

// Of a kernel that may be launched early: the arrays cannot be touched until show_arrays().
void hide_arrays();
bool arrays_are_hidden();

}  // namespace host_cuda
