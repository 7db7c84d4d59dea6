#include "scheduler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "block.h"
#include "launch.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace host_cuda {

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
    --block->running;
}

// Nobody can go on: says who waits where.
[[noreturn]] void report_stuck() {
    struct Group {
        std::size_t size = 0;
        std::string first;
    };
    std::map<std::tuple<State, std::string, int, std::string>, Group> groups;
    const bool alone = cluster.size() == 1;
    for (Block& each : cluster) {
        for (Thread& thread : each.threads) {
            const bool ended = thread.state == State::ended;
            if (!ended && !current) bring_in(each), current = &thread;
            Group& group = groups[{thread.state, ended ? "" : thread.site.file, ended ? 0 : thread.site.line,
                                   ended ? "" : thread.what}];
            if (group.size++ == 0) {
                group.first = "thread " + triple(thread.index) + (alone ? "" : " of block " + triple(each.index));
            }
        }
    }
    const auto size = std::to_string(cluster.size() * block->threads.size());
    std::string message =
        std::string("only a part of the ") + (alone ? "block" : "cluster") + " reaches " + current->what + ":";
    for (const auto& [key, group] : groups) {
        const auto& [state, file, line, what] = key;
        message += "\n  " + std::to_string(group.size) + " of " + size + " threads ";
        message +=
            state == State::ended ? "have ended" : "wait in " + what + " at " + file + ":" + std::to_string(line);
        message += ", the first of them " + group.first;
    }
    threadIdx = current->index;
    fail(current->site, "%s", message.c_str());
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

// A warp may run far ahead of the others: in these orders, whoever is freed goes before those yet to begin. And a
// block runs until it can go on no more before the next of its cluster has a turn.
bool run_ahead() { return order == Order::forward || order == Order::backward; }

// Gives the threads of the block in place a turn each. False if none of them could go on.
bool go_round() {
    bool progress = false;
    released = false;
    for (const std::size_t i : turns(block->threads.size(), warpSize)) {
        Thread& thread = block->threads[i];
        const bool can_run = thread.state == State::ready || thread.state == State::polling;
        if (can_run && take_turn(thread)) progress = true;
        if (run_ahead() && released) break;
    }
    return progress;
}

void begin(Block& fresh) {
    fresh.running = fresh.threads.size();
    for (Barrier& barrier : fresh.barriers) barrier = {};
    for (Thread& thread : fresh.threads) {
        thread.state = State::ready;
        thread.barrier = -1;
        thread.mask = 0;
        thread.meeting = Meeting::none;
        thread.fiber.start(thread_body);
    }
}

void run_cluster() {
    const auto running = [] {
        return std::any_of(cluster.begin(), cluster.end(), [](const Block& each) { return each.running > 0; });
    };
    while (running()) {
        bool progress = false;
        for (const std::size_t i : turns(cluster.size(), 2)) {
            if (cluster[i].running == 0) continue;
            bring_in(cluster[i]);
            while (go_round()) {
                progress = true;
                if (!run_ahead()) break;
            }
        }
        if (!progress && !finish_deferred()) report_stuck();
    }
    finish_deferred();  // a fault, if it is a copy into a block
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

void make_threads() {
    cluster = std::vector<Block>(entry.cluster);
    block = cluster.data();
    for (Block& each : cluster) {
        each.threads = std::vector<Thread>(blockDim.x * blockDim.y * blockDim.z);
        for (unsigned i = 0; i < each.threads.size(); ++i) {
            each.threads[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        }
    }
}

void run_grid(void (*begin_block)()) {
    chance.seed(1);
    const std::size_t blocks = std::size_t{gridDim.x} * gridDim.y * gridDim.z;
    for (const std::size_t first : turns(blocks / cluster.size(), 2)) {
        std::size_t i = first * cluster.size();
        for (Block& each : cluster) {
            const auto row = i / gridDim.x;
            each.index = {static_cast<unsigned>(i++ % gridDim.x), static_cast<unsigned>(row % gridDim.y),
                          static_cast<unsigned>(row / gridDim.y)};
            bring_in(each);
            begin_block();
            begin(each);
        }
        reset_deferred();
        hide_arrays();
        run_cluster();
        if (arrays_are_hidden()) fail(Site::here(), "a block has ended without griddepcontrol.wait");
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
