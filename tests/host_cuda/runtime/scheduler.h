// The order in which threads and blocks take turns, and how they wait.
#pragma once

#include <string>

#include "host_cuda/runtime.h"

namespace host_cuda {

// The threads run one at a time, each until it must wait. Orders differ in who goes first.
enum class Order { forward, backward, random, interleaved };
constexpr Order orders[] = {Order::forward, Order::backward, Order::random, Order::interleaved};
const char* name_of(Order order);

extern Order order;
extern bool released;  // somebody who waited is ready again

// Makes the threads of one block or cluster, which run all others, too: new stacks take longer than most kernels.
void make_threads();

// Runs every block of the grid, in `order`; `begin_block` prepares shared memory.
void run_grid(void (*begin_block)());

// Marks the current thread as waiting and lets the others run until somebody makes it ready again.
void wait(const char* what, Site site);

// "kernel linear, block (1, 0, 0), thread (3, 0, 0), order backward"
std::string whereabouts();

}  // namespace host_cuda
