#include "scheduler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "launch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace host_cuda {

std::vector<Thread> threads;
Thread* current = nullptr;
Order order = Order::forward;
bool released = false;

namespace {

std::mt19937 chance;

std::string triple(const uint3& at) {
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

// The turns of `count` threads or blocks. Interleaved: lane 0 of every warp, then lane 1 of every warp, ...
std::vector<std::size_t> turns(std::size_t count, std::size_t warp) {
    std::vector<std::size_t> turn(count);
    std::iota(turn.begin(), turn.end(), 0);
    if (order == Order::backward) std::reverse(turn.begin(), turn.end());
    if (order == Order::random) std::shuffle(turn.begin(), turn.end(), chance);
    if (order == Order::interleaved) {
        std::stable_sort(turn.begin(), turn.end(), [=](auto a, auto b) { return a % warp < b % warp; });
    }
    return turn;
}

void thread_body() {
    entry.call(slots.data());
    current->state = State::ended;
}

// Nobody can go on: says who waits where.
[[noreturn]] void report_stuck() {
    std::map<std::tuple<State, std::string, int, std::string>, std::vector<const Thread*>> groups;
    const Thread* stuck = nullptr;
    for (const Thread& thread : threads) {
        const bool ended = thread.state == State::ended;
        if (!ended && !stuck) stuck = &thread;
        groups[{thread.state, ended ? "" : thread.site.file, ended ? 0 : thread.site.line, ended ? "" : thread.what}]
            .push_back(&thread);
    }
    std::string message = "only a part of the block reaches " + std::string(stuck->what) + ":";
    for (const auto& [key, group] : groups) {
        const auto& [state, file, line, what] = key;
        message += "\n  " + std::to_string(group.size()) + " of " + std::to_string(threads.size()) + " threads ";
        message +=
            state == State::ended ? "have ended" : "wait in " + what + " at " + file + ":" + std::to_string(line);
        message += ", the first of them thread " + triple(group.front()->index);
    }
    current = const_cast<Thread*>(stuck);
    threadIdx = stuck->index;
    fail(stuck->site, "%s", message.c_str());
}

// Gives a thread its turn. False if it only found that what it polls for has not come.
bool take_turn(Thread& thread) {
    const bool asks_again = thread.state == State::polling;
    thread.state = State::ready;
    thread.went_on = false;
    current = &thread;
    threadIdx = thread.index;
    thread.fiber.resume();
    current = nullptr;
    return !asks_again || thread.went_on || thread.state != State::polling;
}

void run_block() {
    reset_barriers();
    reset_deferred();
    for (Thread& thread : threads) {
        thread.state = State::ready;
        thread.fiber.start(thread_body);
    }
    // A warp may run far ahead of the others: in these orders, whoever is freed goes before those yet to begin.
    const bool run_ahead = order == Order::forward || order == Order::backward;
    for (;;) {
        bool progress = false, ended = true;
        released = false;
        for (const std::size_t i : turns(threads.size(), warpSize)) {
            Thread& thread = threads[i];
            const bool can_run = thread.state == State::ready || thread.state == State::polling;
            if (can_run && take_turn(thread)) progress = true;
            if (thread.state != State::ended) ended = false;
            if (run_ahead && released) break;
        }
        if (ended && !released) return;
        if (!progress && !finish_deferred()) report_stuck();
    }
}

}  // namespace

const char* name_of(Order which) {
    constexpr const char* names[] = {"forward", "backward", "random", "interleaved"};
    return names[static_cast<int>(which)];
}

std::string whereabouts() {
    std::string text = std::string("kernel ") + entry.name;
    if (current) text += ", block " + triple(blockIdx) + ", thread " + triple(current->index);
    return text + ", threads in order: " + name_of(order);
}

void run_grid(void (*begin_block)()) {
    chance.seed(1);
    threads = std::vector<Thread>(blockDim.x * blockDim.y * blockDim.z);
    for (unsigned i = 0; i < threads.size(); ++i) {
        threads[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    }
    const std::size_t blocks = std::size_t{gridDim.x} * gridDim.y * gridDim.z;
    for (const std::size_t i : turns(blocks, 2)) {
        const auto row = i / gridDim.x;
        blockIdx = {static_cast<unsigned>(i % gridDim.x), static_cast<unsigned>(row % gridDim.y),
                    static_cast<unsigned>(row / gridDim.y)};
        begin_block();
        run_block();
    }
}

void wait(const char* what, Site site) {
    Thread* self = current;
    self->state = State::waiting;
    self->what = what;
    self->site = site;
    Fiber::give_way();
}

void poll(Site site) {
    current->state = State::polling;
    current->what = "a barrier in shared memory";
    current->site = site;
    Fiber::give_way();
}

void went_on() { current->went_on = true; }

}  // namespace host_cuda
