// Fibers by hand: swapcontext makes a system call each time, and AddressSanitizer's version of it forgets the
// guard zones of the stack that it leaves.
#include "fiber.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifndef __x86_64__
#error "the host runtime switches fibers in x86-64 assembly; this machine needs its own host_cuda_switch"
#endif

// Saves what a called function must preserve, and swaps the stacks.
extern "C" void host_cuda_switch(void** from, void* to);
asm(R"(
.text
.globl host_cuda_switch
.type host_cuda_switch, @function
host_cuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size host_cuda_switch, . - host_cuda_switch
)");

namespace host_cuda {
namespace {

constexpr std::size_t stack_bytes = 256 << 10, guard_bytes = 4096;

Fiber* running = nullptr;
void* scheduler_stack_pointer;
const void* scheduler_stack;
std::size_t scheduler_stack_bytes;

}  // namespace

void Fiber::allocate() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* pages = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, guard_bytes, PROT_NONE) != 0) {
        std::perror("host_cuda: cannot map the stack of a fiber");
        std::exit(1);
    }
    stack_ = static_cast<unsigned char*>(pages) + guard_bytes;
}

void Fiber::start(void (*body)()) {
    if (!stack_) allocate();
    body_ = body;
    shadow_ = nullptr;
    // The first switch pops six registers and returns into begin(), with the stack aligned as after a call.
    auto* top = reinterpret_cast<std::uintptr_t*>(stack_ + stack_bytes) - 1;
    *top = 0;
    *--top = reinterpret_cast<std::uintptr_t>(&Fiber::begin);
    stack_pointer_ = top - 6;
}

void Fiber::begin() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
    running->body_();
    __sanitizer_start_switch_fiber(nullptr, scheduler_stack, scheduler_stack_bytes);
    host_cuda_switch(&running->stack_pointer_, scheduler_stack_pointer);
    __builtin_unreachable();
}

void Fiber::resume() {
    running = this;
    void* shadow = nullptr;
    __sanitizer_start_switch_fiber(&shadow, stack_, stack_bytes);
    host_cuda_switch(&scheduler_stack_pointer, stack_pointer_);
    __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
    running = nullptr;
}

void Fiber::give_way() {
    Fiber* self = running;
    __sanitizer_start_switch_fiber(&self->shadow_, scheduler_stack, scheduler_stack_bytes);
    host_cuda_switch(&self->stack_pointer_, scheduler_stack_pointer);
    __sanitizer_finish_switch_fiber(self->shadow_, &scheduler_stack, &scheduler_stack_bytes);
}

}  // namespace host_cuda
