// The blocks of a cluster: whose shared memory is in place, their barrier, and how one reaches into another.
#include "block.h"
#include "scheduler.h"

namespace host_cuda {

std::vector<Block> cluster;
Block* block = nullptr;

void bring_in(Block& next) {
    if (block != &next) {
        block->shared.save();
        next.shared.restore();
        block = &next;
    }
    blockIdx = next.index;
}

unsigned cluster_size() { return static_cast<unsigned>(cluster.size()); }
unsigned cluster_rank() { return static_cast<unsigned>(block - cluster.data()); }

void* in_block(unsigned rank, const void* pointer, const char* what, Site site) {
    const std::uint32_t address = shared_address(pointer, site);
    if (rank >= cluster.size()) fail(site, "%s to block %u of a cluster of %zu", what, rank, cluster.size());
    Block& other = cluster[rank];
    if (other.running == 0) fail(site, "%s to block %u of the cluster, which has ended", what, rank);
    return &other == block ? shared_pointer(address) : other.shared.at(address);
}

void cluster_arrive(Site site) {
    if (current->meeting != Meeting::none) fail(site, "cluster_arrive() a second time before cluster_wait()");
    current->meeting = Meeting::arrived;
    for (const Block& each : cluster) {
        for (const Thread& thread : each.threads) {
            if (thread.meeting != Meeting::arrived) return;
        }
    }
    for (Block& each : cluster) {
        for (Thread& thread : each.threads) {
            thread.meeting = Meeting::complete;
            if (thread.barrier == cluster_barrier) thread.state = State::ready;
        }
    }
    released = true;
}

void cluster_wait(Site site) {
    if (current->meeting == Meeting::none) fail(site, "cluster_wait() without cluster_arrive()");
    if (current->meeting == Meeting::arrived) {
        current->barrier = cluster_barrier;
        wait("the barrier of the cluster", site);
        current->barrier = -1;
    }
    current->meeting = Meeting::none;
}

}  // namespace host_cuda
