// Global memory between guard zones, and shared memory with nothing but poison in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace host_cuda {

// An array of the caller, alone in its own pages. It is aligned to 256 bytes and no more, like device memory, and
// everything around it is out of bounds. An array that the kernel only reads cannot be written at all.
class Buffer {
  public:
    Buffer(std::string name, std::size_t bytes, bool written);
    void protect();
    void hide();
    void show();

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

// Fills shared memory. What the launch does not have of dynamic shared memory is out of bounds.
void poison_shared(unsigned char pattern);

// Shared memory as it was when it had to make room for another block's.
class SharedImage {
  public:
    void save();
    void restore() const;
    void* at(std::uint32_t address) { return bytes_.data() + address; }

  private:
    std::vector<unsigned char> bytes_;  // by 18-bit address
};

constexpr std::size_t most_shared_bytes = 227 << 10;

}  // namespace host_cuda
