// The blocks that run together: a cluster, which is most often a single block.
#pragma once

#include <vector>

#include "asynchronous.h"
#include "fiber.h"
#include "host_cuda/runtime.h"
#include "host_cuda/threads.h"
#include "memory.h"

namespace host_cuda {

enum class State { ready, polling, waiting, ended };
// Where a thread is between cluster_arrive() and the end of cluster_wait().
enum class Meeting { none, arrived, complete };

struct Thread {
    Fiber fiber;
    uint3 index{};
    State state = State::ended;
    bool went_on = false;   // since its last turn, it got what it polled for
    Site site{};            // where it waits
    const char* what = "";  // and in which operation
    int barrier = -1;       // the named barrier it waits at
    int answer = 0;         // what a voting barrier tells it
    Meeting meeting = Meeting::none;
    Groups groups[2];  // what it has under way, by queue
    // Its part in a warp operation, while it waits in one.
    unsigned mask = 0;
    const void* mine = nullptr;
    void* all = nullptr;
    std::size_t bytes = 0;
};

struct Barrier {
    unsigned expected = 0, arrived = 0;
    int count = 0;
    Site site{};  // of the first to arrive
};

struct Block {
    uint3 index{};
    std::vector<Thread> threads;
    std::size_t running = 0;  // threads that have not ended
    Barrier barriers[16];
    SharedImage shared;  // while another block's shared memory is in place
};

extern std::vector<Block> cluster;
extern Block* block;     // the one being run
extern Thread* current;  // null outside kernel code

// Makes `next` the block being run, with its shared memory in place.
void bring_in(Block& next);
constexpr int cluster_barrier = 16;  // behind those with numbers

}  // namespace host_cuda
