#include "memory.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "host_cuda/runtime.h"
#include "launch.h"

// Where `extern __shared__` arrays lie (build.py names them so).
extern "C" {
alignas(1024) unsigned char host_cuda_shared_zone[1024 + host_cuda::most_shared_bytes + 1024];
asm(".globl host_cuda_dynamic_shared\n.set host_cuda_dynamic_shared, host_cuda_shared_zone + 1024");
extern unsigned char host_cuda_dynamic_shared[];
// The ends of the section of static shared arrays; absent where a kernel has none.
extern unsigned char __start_cuda_shared[] __attribute__((weak));
extern unsigned char __stop_cuda_shared[] __attribute__((weak));
}

namespace host_cuda {
namespace {

constexpr std::size_t page = 4096, alignment = 256;
// Out of bounds on either side of an array, so that no stride gone wrong lands in another. It costs addresses only.
constexpr std::size_t beyond = 256 << 20;
constexpr std::uint32_t static_shared = most_shared_bytes + 1024;  // its first 18-bit address

// Writes over guard zones too, so it must not become a call of memset, which AddressSanitizer checks.
void fill(unsigned char* begin, const unsigned char* end, unsigned char value) {
    for (volatile unsigned char* at = begin; at < end; ++at) *at = value;
}

// memcpy in one instruction, for the same reason.
void copy(unsigned char* to, const unsigned char* from, std::size_t bytes) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}

std::size_t static_bytes() { return __stop_cuda_shared - __start_cuda_shared; }

}  // namespace

Buffer::Buffer(std::string name, std::size_t bytes, bool written)
    : name(std::move(name)), bytes(bytes), written(written) {
    page_bytes_ = (alignment + bytes + page - 1) / page * page + page;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* mapped = mmap(nullptr, page_bytes_ + 2 * beyond, PROT_NONE, flags, -1, 0);
    pages_ = static_cast<unsigned char*>(mapped) + beyond;
    if (mapped == MAP_FAILED || mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) != 0) {
        std::perror("host_cuda: cannot map an array");
        std::exit(1);
    }
    data = pages_ + alignment;
    __asan_poison_memory_region(pages_, page_bytes_);
    __asan_unpoison_memory_region(data, bytes);
}

void Buffer::protect() {
    if (!written) mprotect(pages_, page_bytes_, PROT_READ);
}

void Buffer::hide() { __asan_poison_memory_region(data, bytes); }

void Buffer::show() { __asan_unpoison_memory_region(data, bytes); }

std::string describe_address(const std::vector<Buffer>& buffers, const void* address) {
    const auto* at = static_cast<const unsigned char*>(address);
    for (const Buffer& buffer : buffers) {
        const std::string array = buffer.name + " (" + std::to_string(buffer.bytes) + " bytes)";
        const unsigned char* end = buffer.data + buffer.bytes;
        if (at >= buffer.data && at < end)
            return "to " + array + (buffer.written ? "" : ", which the kernel may only read");
        if (at >= end && at < end + beyond) return std::to_string(at - end) + " bytes behind the end of " + array;
        if (at < buffer.data && at >= buffer.data - beyond) {
            return std::to_string(buffer.data - at) + " bytes before " + array;
        }
    }
    const unsigned char* shared = host_cuda_dynamic_shared;
    if (at >= shared && at < shared + most_shared_bytes) {
        return "to byte " + std::to_string(at - shared) + " of dynamic shared memory, which the launch does not have";
    }
    return "";
}

void poison_shared(unsigned char pattern) {
    __asan_poison_memory_region(host_cuda_shared_zone, sizeof host_cuda_shared_zone);
    __asan_unpoison_memory_region(host_cuda_dynamic_shared, shared_bytes);
    fill(host_cuda_dynamic_shared, host_cuda_dynamic_shared + shared_bytes, pattern);
    fill(__start_cuda_shared, __stop_cuda_shared, pattern);
}

void SharedImage::save() {
    bytes_.resize(static_shared + static_bytes());
    copy(bytes_.data(), host_cuda_dynamic_shared, shared_bytes);
    copy(bytes_.data() + static_shared, __start_cuda_shared, static_bytes());
}

void SharedImage::restore() const {
    if (bytes_.empty()) return;  // its block has yet to begin
    copy(host_cuda_dynamic_shared, bytes_.data(), shared_bytes);
    copy(__start_cuda_shared, bytes_.data() + static_shared, static_bytes());
}

std::uint32_t shared_address(const void* pointer, Site site) {
    const auto* at = static_cast<const unsigned char*>(pointer);
    if (at >= host_cuda_dynamic_shared && at < host_cuda_dynamic_shared + most_shared_bytes) {
        return static_cast<std::uint32_t>(at - host_cuda_dynamic_shared);
    }
    if (at < __start_cuda_shared || at >= __stop_cuda_shared) fail(site, "this pointer is not into shared memory");
    return static_shared + static_cast<std::uint32_t>(at - __start_cuda_shared);
}

unsigned char* shared_pointer(std::uint32_t address) {
    return address < static_shared ? host_cuda_dynamic_shared + address
                                   : __start_cuda_shared + (address - static_shared);
}

}  // namespace host_cuda
