// The threads of one block as fibers, and the order in which they take turns.
#pragma once

#include <string>
#include <vector>

#include "fiber.h"
#include "host_cuda/runtime.h"
#include "host_cuda/threads.h"

namespace host_cuda {

enum class State { ready, polling, waiting, ended };

struct Thread {
    Fiber fiber;
    uint3 index{};
    State state = State::ended;
    bool went_on = false;   // since its last turn, it got what it polled for
    Site site{};            // where it waits
    const char* what = "";  // and in which operation
    int barrier = -1;       // the named barrier it waits at
    int answer = 0;         // what a voting barrier tells it
    // Its part in a warp operation, while it waits in one.
    unsigned mask = 0;
    const void* mine = nullptr;
    void* all = nullptr;
    std::size_t bytes = 0;
};

// The threads run one at a time, each until it must wait. Orders differ in who goes first.
enum class Order { forward, backward, random, interleaved };
constexpr Order orders[] = {Order::forward, Order::backward, Order::random, Order::interleaved};
const char* name_of(Order order);

// The block being run.
extern std::vector<Thread> threads;
extern Thread* current;  // null outside kernel code
extern Order order;
extern bool released;  // somebody who waited is ready again

// Runs every block of the grid, in `order`; `begin_block` prepares shared memory.
void run_grid(void (*begin_block)());

// Marks the current thread as waiting and lets the others run until somebody makes it ready again.
void wait(const char* what, Site site);

// Carries out what defer_until_stuck() put off; false if there was nothing.
bool finish_deferred();
// Forget what the previous block left behind.
void reset_barriers();
void reset_deferred();

// "kernel linear, block (1, 0, 0), thread (3, 0, 0), order backward"
std::string whereabouts();

}  // namespace host_cuda
