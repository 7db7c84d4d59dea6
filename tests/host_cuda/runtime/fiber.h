// A fiber: a function with a stack of its own, which runs until it gives way. Its stack stays until the process ends.
#pragma once

#include <cstddef>

namespace host_cuda {

class Fiber {
  public:
    Fiber() = default;
    Fiber(const Fiber&) = delete;
    // Makes the next resume() begin `body`.
    void start(void (*body)());
    // Runs the fiber until it gives way or its body returns.
    void resume();
    // Called inside a fiber: back to the resume() that runs it.
    static void give_way();

  private:
    static void begin();
    void allocate();

    unsigned char* stack_ = nullptr;
    void* stack_pointer_ = nullptr;
    void* shadow_ = nullptr;  // AddressSanitizer's own note of this stack
    void (*body_)() = nullptr;
};

}  // namespace host_cuda
