// Runs one launch in every order and writes the arrays that the kernel may write to standard output.
// Any finding goes to standard error, with exit status 1.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "findings.h"
#include "launch.h"
#include "scheduler.h"

namespace host_cuda {
namespace {

// Shared memory begins differently in each order: as NaN, very large, very small, zero. What depends on it shows.
constexpr unsigned char patterns[] = {0xFF, 0x7E, 0xFE, 0x00};

using Contents = std::vector<std::vector<unsigned char>>;

Contents written_contents() {
    Contents contents;
    for (const Buffer& buffer : buffers) {
        if (buffer.written) contents.emplace_back(buffer.data, buffer.data + buffer.bytes);
    }
    return contents;
}

void restore(const Contents& contents) {
    auto kept = contents.begin();
    for (const Buffer& buffer : buffers) {
        if (buffer.written) std::memcpy(buffer.data, (kept++)->data(), buffer.bytes);
    }
}

void compare(const Contents& first) {
    auto expected = first.begin();
    for (const Buffer& buffer : buffers) {
        if (!buffer.written) continue;
        const auto& bytes = *expected++;
        for (std::size_t i = 0; i < buffer.bytes; ++i) {
            if (buffer.data[i] == bytes[i]) continue;
            std::fprintf(
                stderr,
                "host_cuda: %s: byte %zu of %s differs from the order %s: a race, or uninitialised shared memory\n",
                whereabouts().c_str(), i, buffer.name.c_str(), name_of(orders[0]));
            std::exit(1);
        }
    }
}

}  // namespace
}  // namespace host_cuda

int main() {
    using namespace host_cuda;
    watch_for_faults();
    read_launch();
    check_launch();
    make_threads();
    const Contents before = written_contents();
    Contents first;
    for (const Order turn : orders) {
        order = turn;
        restore(before);
        run_grid([] { poison_shared(patterns[static_cast<int>(order)]); });
        if (turn == orders[0]) {
            first = written_contents();
        } else if (!order_dependent) {
            compare(first);
        }
    }
    restore(first);
    for (const Buffer& buffer : buffers) {
        if (buffer.written) std::fwrite(buffer.data, 1, buffer.bytes, stdout);
    }
    return 0;
}
