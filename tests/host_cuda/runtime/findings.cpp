#include "findings.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "launch.h"
#include "scheduler.h"

// The sanitizers' own; the headers of g++ leave them out.
extern "C" {
void __sanitizer_symbolize_pc(void* pc, const char* format, char* out, std::size_t size);
void __ubsan_get_current_report_data(const char** kind, const char** message, const char** file, unsigned* line,
                                     unsigned* column, char** address);
}

namespace host_cuda {
namespace {

// "kernels_cu/linear.cu:25", or what is known instead.
std::string place_of(void* pc) {
    char place[512] = "";
    __sanitizer_symbolize_pc(pc, "%S", place, sizeof place);
    return place;
}

// A sanitizer has written its report and ends the process: adds where that was.
void on_report() {
    std::string text = "host_cuda: " + whereabouts();
    if (__asan_report_present()) {
        const auto array = describe_address(buffers, __asan_get_report_address());
        text += ": " + place_of(__asan_get_report_pc()) + ": access ";
        text += array.empty() ? "out of bounds" : arrays_are_hidden() ? "before griddepcontrol.wait " + array : array;
    }
    std::fprintf(stderr, "%s\n", text.c_str());
}

// An address that no page can give: far outside an array, or within one that the kernel may only read.
void on_signal(int, siginfo_t* info, void* context) {
    auto array = describe_address(buffers, info->si_addr);
    if (array.empty()) array = "to no array";
    auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto place = place_of(reinterpret_cast<void*>(registers[REG_RIP]));
    std::fprintf(stderr, "host_cuda: %s: %s: access %s\n", whereabouts().c_str(), place.c_str(), array.c_str());
    _exit(1);
}

}  // namespace
}  // namespace host_cuda

// Called by UndefinedBehaviorSanitizer, a library apart with no care for the death callback, before it reports.
extern "C" void __ubsan_on_report() {
    const char *kind, *message, *file;
    char* address;
    unsigned line, column;
    __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
    const auto where = host_cuda::whereabouts();
    std::fprintf(stderr, "host_cuda: %s: %s:%u: %s\n", where.c_str(), file, line, message);
}

namespace host_cuda {

void watch_for_faults() {
    __sanitizer_set_death_callback(on_report);
    static unsigned char stack[256 << 10];  // a fiber that overflows its own has none left
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

void fail(Site site, const char* format, ...) {
    std::fprintf(stderr, "host_cuda: %s: %s:%d: ", whereabouts().c_str(), site.file, site.line);
    va_list values;
    va_start(values, format);
    std::vfprintf(stderr, format, values);
    va_end(values);
    std::fputc('\n', stderr);
    std::fflush(stderr);
    _exit(1);
}

}  // namespace host_cuda
