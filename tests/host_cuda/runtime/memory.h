// Global memory between guard zones, and shared memory with nothing but poison in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace host_cuda {

// An array of the caller, alone in its own pages. It is aligned to 256 bytes and no more, like device memory, and
// everything around it is out of bounds. An array that the kernel only reads cannot be written at all.
class Buffer {
  public:
    Buffer(std::string name, std::size_t bytes, bool written);
    void protect();

    std::string name;
    std::size_t bytes;
    bool written;
    unsigned char* data;

  private:
    unsigned char* pages_;
    std::size_t page_bytes_;
};

// What a fault at `address` has to do with the arrays: "8 bytes behind the end of x (1024 bytes)", or nothing.
std::string describe_address(const std::vector<Buffer>& buffers, const void* address);

// Fills static shared memory and `bytes` of dynamic shared memory; the rest of the latter is out of bounds.
void poison_shared(std::size_t bytes, unsigned char pattern);
constexpr std::size_t most_shared_bytes = 227 << 10;

}  // namespace host_cuda
