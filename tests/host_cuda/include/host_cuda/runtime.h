// What the stand-in headers ask of the runtime: where a thread is, how it waits, how it fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace host_cuda {

// A place in a kernel. As a default argument, Site::here() is the place of the call.
struct Site {
    const char* file;
    int line;

    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// Ends the run with a message; kernel, block, thread and order are added to it.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));

// How a block-wide barrier folds the predicates of its threads.
enum class Vote { none, count, all, any };

// Arrives at a named barrier of `threads` threads, and waits there unless told not to.
void barrier_sync(int id, unsigned threads, Site site);
void barrier_arrive(int id, unsigned threads, Site site);
// Barrier 0 for the whole block: every thread must come to the same line.
int barrier_block(Vote vote, int predicate, Site site);

// Meets the lanes of `mask` in the operation `what`. Each brings `size` bytes and gets those of all 32 lanes.
void exchange(const char* what, unsigned mask, const void* mine, void* all, std::size_t size, Site site);
unsigned lane();

// The cluster that this block is in: blocks that run together. Its barrier is one for all of their threads.
unsigned cluster_size();
unsigned cluster_rank();
void cluster_arrive(Site site);
void cluster_wait(Site site);
// The same place in the shared memory of another block. That the block has ended is a fault of the operation `what`.
void* in_block(unsigned rank, const void* pointer, const char* what, Site site);

// Gives way to the other threads because something awaited is not there yet; then says if it came.
void poll(Site site);
void went_on();

// An asynchronous operation may finish at once or as late as its waiting allows: the orders of a launch try both.
// Each takes a copy of the `bytes` bytes of `state`, which `operation` is handed when it is carried out.
using Operation = void (*)(const void* state);
enum class Queue { copies, products };  // cp.async and wgmma: each thread has its own groups of either
void defer(Queue queue, Operation operation, const void* state, std::size_t bytes);
void commit_group(Queue queue);
void wait_group(Queue queue, unsigned still_open);
// One that tells of this thread's copies so far: they end before it, when no thread can go on without it at the latest.
void defer_behind_copies(Operation operation, const void* state, std::size_t bytes);
// An operation that no thread waits for by group: late means when no thread can go on without it.
void defer_until_stuck(Operation operation, const void* state, std::size_t bytes);

// The kernels before this one in the stream are done: until then, one that may be launched early has no arrays.
void show_arrays();

// Shared memory as the 18-bit addresses that descriptors hold.
std::uint32_t shared_address(const void* pointer, Site site);
unsigned char* shared_pointer(std::uint32_t address);

// A kernel as the runtime starts it: one call is one thread.
union Slot {
    void* pointer;
    unsigned char scalar[16];
};
struct Entry {
    const char* name;
    unsigned threads;  // the bound of __launch_bounds__
    unsigned cluster;  // the blocks of __cluster_dims__
    std::size_t parameters;
    const int* sizes;  // bytes of each scalar parameter, 0 for a pointer
    void (*call)(const Slot* slots);
};
extern const Entry entry;  // defined at the end of each kernel's translation unit

template <class T>
T from_slot(const Slot& slot) {
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(slot.pointer);
    } else {
        static_assert(sizeof(T) <= sizeof(Slot), "a scalar parameter larger than its slot");
        T value;
        std::memcpy(&value, slot.scalar, sizeof value);
        return value;
    }
}

template <auto kernel>
struct Described;
template <class... P, void (*kernel)(P...)>
struct Described<kernel> {
    static constexpr int sizes[] = {(std::is_pointer_v<P> ? 0 : static_cast<int>(sizeof(P)))..., 0};

    template <std::size_t... I>
    static void spread(const Slot* slots, std::index_sequence<I...>) {
        kernel(from_slot<P>(slots[I])...);
    }
    static void call(const Slot* slots) { spread(slots, std::index_sequence_for<P...>{}); }
    static constexpr Entry entry(const char* name, unsigned threads, unsigned cluster) {
        return {name, threads, cluster, sizeof...(P), sizes, call};
    }
};

}  // namespace host_cuda
