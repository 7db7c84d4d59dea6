// Where threads meet: the barriers of a block and the operations of a warp.
#include <algorithm>
#include <cstring>

#include "block.h"
#include "scheduler.h"

namespace host_cuda {
namespace {

void check_named(int id, unsigned expected, Site site) {
    if (id < 0 || id > 15) fail(site, "barrier %d: the device has barriers 0 to 15", id);
    if (expected == 0 || expected % warpSize != 0 || expected > block->threads.size()) {
        fail(site, "barrier %d for %u threads: must be whole warps of this block of %zu", id, expected,
             block->threads.size());
    }
}

// Counts this thread in. True if it is the last, and then everybody who waits is ready again.
bool arrive(int id, unsigned expected, int predicate, Site site) {
    Barrier& barrier = block->barriers[id];
    if (barrier.arrived == 0) barrier = {expected, 0, 0, site};
    if (barrier.expected != expected) {
        fail(site, "barrier %d for %u threads, but %s:%d came to it for %u", id, expected, barrier.site.file,
             barrier.site.line, barrier.expected);
    }
    barrier.count += predicate != 0;
    if (++barrier.arrived < expected) return false;
    for (Thread& thread : block->threads) {
        if (thread.state != State::waiting || thread.barrier != id) continue;
        thread.state = State::ready;
        thread.barrier = -1;
        thread.answer = barrier.count;
    }
    current->answer = barrier.count;
    barrier.arrived = 0;
    released = true;
    return true;
}

void wait_at(int id, const char* what, Site site) {
    current->barrier = id;
    wait(what, site);
}

}  // namespace

void barrier_sync(int id, unsigned expected, Site site) {
    check_named(id, expected, site);
    if (!arrive(id, expected, 0, site)) wait_at(id, "a named barrier", site);
}

void barrier_arrive(int id, unsigned expected, Site site) {
    check_named(id, expected, site);
    arrive(id, expected, 0, site);
}

int barrier_block(Vote vote, int predicate, Site site) {
    const Barrier& barrier = block->barriers[0];
    if (barrier.arrived && (barrier.site.line != site.line || std::strcmp(barrier.site.file, site.file) != 0)) {
        fail(site, "divergent __syncthreads(): a part of the block waits at %s:%d, this thread came to %s:%d",
             barrier.site.file, barrier.site.line, site.file, site.line);
    }
    const auto size = static_cast<unsigned>(block->threads.size());
    if (!arrive(0, size, predicate, site)) wait_at(0, "__syncthreads()", site);
    switch (vote) {
        case Vote::count: return current->answer;
        case Vote::all: return current->answer == static_cast<int>(size);
        case Vote::any: return current->answer != 0;
        default: return 0;
    }
}

unsigned lane() { return static_cast<unsigned>(current - block->threads.data()) % warpSize; }

void exchange(const char* what, unsigned mask, const void* mine, void* all, std::size_t bytes, Site site) {
    std::vector<Thread>& threads = block->threads;
    Thread* warp = current - lane();
    const auto lanes =
        static_cast<unsigned>(std::min<std::ptrdiff_t>(warpSize, threads.data() + threads.size() - warp));
    if (!(mask >> lane() & 1u))
        fail(site, "%s with mask 0x%08x by lane %u, which the mask leaves out", what, mask, lane());
    if (lanes < 32 && mask >> lanes) fail(site, "%s with mask 0x%08x in a warp of %u threads", what, mask, lanes);
    current->mask = mask, current->mine = mine, current->all = all, current->bytes = bytes;
    current->what = what, current->site = site;
    bool complete = true;
    for (unsigned i = 0; i < lanes; ++i) {
        const Thread& other = warp[i];
        if (!(mask >> i & 1u)) continue;
        if (other.state == State::ended) {
            fail(site, "%s with mask 0x%08x, but lane %u of it has ended", what, mask, i);
        }
        if (other.mask == 0)
            complete = false;
        else if (other.mask != mask || std::strcmp(other.what, what) != 0 || other.bytes != bytes) {
            fail(site, "%s with mask 0x%08x meets %s with mask 0x%08x of lane %u at %s:%d", what, mask, other.what,
                 other.mask, i, other.site.file, other.site.line);
        }
    }
    if (!complete) return wait(what, site);
    // The last to come hands everybody's bytes to everybody: those who wait keep theirs on their stacks.
    for (unsigned to = 0; to < lanes; ++to) {
        if (!(mask >> to & 1u)) continue;
        for (unsigned from = 0; from < lanes && bytes; ++from) {
            if (mask >> from & 1u) std::memcpy(static_cast<char*>(warp[to].all) + from * bytes, warp[from].mine, bytes);
        }
    }
    for (unsigned i = 0; i < lanes; ++i) {
        if (!(mask >> i & 1u)) continue;
        warp[i].mask = 0;
        warp[i].state = State::ready;
    }
    released = true;
}

}  // namespace host_cuda
