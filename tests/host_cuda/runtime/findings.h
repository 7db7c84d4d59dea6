// How a fault of the kernel is told: where it is in the grid, and which array it concerns.
#pragma once

namespace host_cuda {

// From here on the reports of the sanitizers and accesses to unmapped memory are told too.
void watch_for_faults();

}  // namespace host_cuda
