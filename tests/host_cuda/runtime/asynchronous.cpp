// Operations that end later than they begin: copies into shared memory and warpgroup products.
//
// In two of the four orders they end at once and in the others as late as their waiting allows. A kernel that reads
// too early, or overwrites an operand too early, gets another result in one of them.
#include "asynchronous.h"

#include <algorithm>

#include "block.h"
#include "scheduler.h"

namespace host_cuda {
namespace {

struct OfBlock {
    Block* block;
    Deferred deferred;
};
std::vector<OfBlock> until_stuck;

bool late() { return order == Order::forward || order == Order::random; }
Groups& own_groups(Queue queue) { return current->groups[static_cast<int>(queue)]; }

// Carries out the copies of a thread up to the last that is announced, and not those after it.
bool finish_announced(Block& owner, Groups& groups) {
    std::ptrdiff_t left = 0;
    for (const auto& group : groups) {
        left += std::count_if(group.begin(), group.end(), [](const Deferred& each) { return each.announces; });
    }
    if (!left) return false;
    bring_in(owner);
    for (auto group = groups.begin(); left; ++group) {
        auto next = group->begin();
        for (; left && next != group->end(); ++next) {
            next->carry_out();
            left -= next->announces;
        }
        group->erase(group->begin(), next);
    }
    return true;
}

}  // namespace

void reset_deferred() {
    for (Block& each : cluster) {
        for (Thread& thread : each.threads) {
            for (Groups& groups : thread.groups) groups.assign(1, {});
        }
    }
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

void defer_behind_copies(Operation operation, const void* state, std::size_t bytes) {
    if (!late()) return operation(state);
    own_groups(Queue::copies).back().emplace_back(operation, state, bytes, true);
}

void defer_until_stuck(Operation operation, const void* state, std::size_t bytes) {
    if (!late()) return operation(state);
    until_stuck.push_back({block, {operation, state, bytes}});
}

bool finish_deferred() {
    std::vector<OfBlock> now;
    now.swap(until_stuck);
    bool any = !now.empty();
    for (const OfBlock& each : now) {
        bring_in(*each.block);
        each.deferred.carry_out();
    }
    for (Block& each : cluster) {
        for (Thread& thread : each.threads) any |= finish_announced(each, thread.groups[int(Queue::copies)]);
    }
    return any;
}

}  // namespace host_cuda
