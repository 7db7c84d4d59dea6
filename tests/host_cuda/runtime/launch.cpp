// Reads a launch from standard input, as runner.py writes it, and refuses what a device would refuse.
#include "launch.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "scheduler.h"

namespace host_cuda {

std::vector<Slot> slots;
std::vector<Buffer> buffers;
std::size_t shared_bytes = 0;
bool order_dependent = false;

namespace {

bool overlaps = false, hidden = false;

[[noreturn]] void refuse(const std::string& why) {
    std::fprintf(stderr, "host_cuda: kernel %s: %s\n", entry.name, why.c_str());
    std::exit(1);
}

template <class T>
T next() {
    T value;
    if (!(std::cin >> value)) refuse("the launch is malformed");
    return value;
}

void read_argument() {
    const auto position = slots.size();
    if (position >= entry.parameters) refuse("takes " + std::to_string(entry.parameters) + " arguments, got more");
    const auto place = "argument " + std::to_string(position);
    Slot slot{};
    const int wanted = entry.sizes[position];
    if (next<std::string>() == "buffer") {
        if (wanted != 0) refuse(place + " is an array, but the parameter is passed by value");
        slot.pointer = buffers.at(next<std::size_t>()).data;
    } else {
        const int size = next<int>();
        if (wanted != size) {
            refuse(place + " has " + std::to_string(size) + " bytes, its parameter " + std::to_string(wanted) +
                   " (0: a pointer)");
        }
        const auto bits = next<unsigned long long>();
        std::memcpy(slot.scalar, &bits, sizeof bits);
    }
    slots.push_back(slot);
}

}  // namespace

void read_launch() {
    for (std::string word; word != "data";) {
        word = next<std::string>();
        if (word == "grid") gridDim = {next<unsigned>(), next<unsigned>(), next<unsigned>()};
        if (word == "block") blockDim = {next<unsigned>(), next<unsigned>(), next<unsigned>()};
        if (word == "shared") shared_bytes = next<std::size_t>();
        if (word == "order_dependent") order_dependent = next<int>() != 0;
        if (word == "overlaps") overlaps = next<int>() != 0;
        if (word == "argument") read_argument();
        if (word == "buffer") {
            auto name = next<std::string>();
            const auto bytes = next<std::size_t>();
            buffers.emplace_back(name, bytes, next<std::string>() == "written");
        }
    }
    std::cin.get();  // the end of the last line
    for (Buffer& buffer : buffers) {
        std::cin.read(reinterpret_cast<char*>(buffer.data), static_cast<std::streamsize>(buffer.bytes));
        buffer.protect();
    }
}

// What a device would refuse.
void check_launch() {
    const auto size = std::size_t{blockDim.x} * blockDim.y * blockDim.z;
    if (slots.size() != entry.parameters) {
        refuse("takes " + std::to_string(entry.parameters) + " arguments, got " + std::to_string(slots.size()));
    }
    if (size == 0 || size > 1024 || blockDim.z > 64)
        refuse("a block of " + std::to_string(size) + " threads: 1 to 1024 can be");
    if (size > entry.threads) {
        refuse("a block of " + std::to_string(size) + " threads, but __launch_bounds__ allows " +
               std::to_string(entry.threads));
    }
    if (!gridDim.x || !gridDim.y || !gridDim.z) refuse("the grid is empty");
    if (gridDim.x > 0x7FFFFFFFu || gridDim.y > 65535 || gridDim.z > 65535) refuse("the grid is too large");
    if (entry.cluster > 8) refuse("a cluster of " + std::to_string(entry.cluster) + " blocks: 1 to 8 can be");
    if (gridDim.x % entry.cluster) {
        refuse("a grid of " + std::to_string(gridDim.x) + " blocks along x, in clusters of " +
               std::to_string(entry.cluster));
    }
    if (shared_bytes > most_shared_bytes)
        refuse(std::to_string(shared_bytes) + " bytes of shared memory: no device has them");
}

void hide_arrays() {
    if (!overlaps) return;
    hidden = true;
    for (Buffer& buffer : buffers) buffer.hide();
}

void show_arrays() {
    if (!hidden) return;
    hidden = false;
    for (Buffer& buffer : buffers) buffer.show();
}

bool arrays_are_hidden() { return hidden; }

}  // namespace host_cuda
