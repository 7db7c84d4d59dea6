// WGMMA: the groups of a block end their tiles one after the other, so that one multiplies while another one stores. Up to
// the last APART steps they multiply together; with these each waits until the group before has begun all of its own, the
// first one until the last one has begun those of the tile before. To begin with, the last one passes the turn.
#pragma once

#include "wgmma_tile.cuh"

// Barriers of the group that waits and the one before, 1 to GROUPS.
__device__ __forceinline__ void wait_turn(int group) { ptx::barrier_sync(1 + group, 256); }

__device__ __forceinline__ void pass_turn(int group) { ptx::barrier_arrive(1 + (group + 1) % GROUPS, 256); }
