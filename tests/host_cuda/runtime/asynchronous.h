// What a thread has under way: operations that end later than they begin.
#pragma once

#include <deque>
#include <vector>

#include "host_cuda/runtime.h"

namespace host_cuda {

struct Deferred {
    Operation operation;
    std::vector<unsigned char> state;
    bool announces;  // tells a barrier that the copies before it have ended

    Deferred(Operation operation, const void* state, std::size_t bytes, bool announces = false)
        : operation(operation),
          state(static_cast<const unsigned char*>(state), static_cast<const unsigned char*>(state) + bytes),
          announces(announces) {}
    void carry_out() const { operation(state.data()); }
};

// The groups of one thread in one queue, the last of them still open.
using Groups = std::deque<std::vector<Deferred>>;

// Carries out what no thread waits for by group; false if there was nothing.
bool finish_deferred();
// Forgets what an earlier cluster left behind.
void reset_deferred();

}  // namespace host_cuda
