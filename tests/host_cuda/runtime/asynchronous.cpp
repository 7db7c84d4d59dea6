// Operations that end later than they begin: copies into shared memory and warpgroup products.
//
// In two of the four orders they end at once and in the others as late as their waiting allows. A kernel that reads
// too early, or overwrites an operand too early, gets another result in one of them.
#include <deque>
#include <vector>

#include "scheduler.h"

namespace host_cuda {
namespace {

struct Deferred {
    Operation operation;
    std::vector<unsigned char> state;

    Deferred(Operation operation, const void* state, std::size_t bytes)
        : operation(operation),
          state(static_cast<const unsigned char*>(state), static_cast<const unsigned char*>(state) + bytes) {}
    void carry_out() const { operation(state.data()); }
};

// The groups of one thread in one queue, the last of them still open.
using Groups = std::deque<std::vector<Deferred>>;
std::vector<Groups> groups[2];
std::vector<Deferred> until_stuck;

bool late() { return order == Order::forward || order == Order::random; }
Groups& own_groups(Queue queue) { return groups[static_cast<int>(queue)][current - threads.data()]; }

}  // namespace

void reset_deferred() {
    for (auto& queue : groups) queue.assign(threads.size(), Groups(1));
    until_stuck.clear();
}

void defer(Queue queue, Operation operation, const void* state, std::size_t bytes) {
    if (!late()) return operation(state);
    own_groups(queue).back().emplace_back(operation, state, bytes);
}

void commit_group(Queue queue) { own_groups(queue).emplace_back(); }

void wait_group(Queue queue, unsigned still_open) {
    Groups& own = own_groups(queue);
    while (own.size() > std::size_t{still_open} + 1) {
        for (const Deferred& deferred : own.front()) deferred.carry_out();
        own.pop_front();
    }
}

void defer_until_stuck(Operation operation, const void* state, std::size_t bytes) {
    if (!late()) return operation(state);
    until_stuck.emplace_back(operation, state, bytes);
}

bool finish_deferred() {
    std::vector<Deferred> now;
    now.swap(until_stuck);
    for (const Deferred& deferred : now) deferred.carry_out();
    return !now.empty();
}

}  // namespace host_cuda
