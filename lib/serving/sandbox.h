// A sandbox for a process that only reads files and computes: for parsing files of tenants.
//
// In it, a process cannot open a file for writing, nor (with Landlock) one outside of the given
// directories; it has no sockets, starts no threads and no programs, maps no memory as code, and
// ends if it makes any other system call. Its memory and its time are limited.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::serving {

struct SandboxLimits {
  uint64_t memory_bytes = 0;  // beyond the memory that the process has when it enters
  uint64_t time_ns = 0;       // of the CPU, and of the clock
};

// Puts this process, which must have one thread, into the sandbox, which it cannot leave. It may
// read the files in `directories`, and those that links in them point to. Errors: kUnsupported (the
// kernel).
Status enter_sandbox(const SandboxLimits& limits, std::span<const std::string> directories);

// Runs `body` in a child of this process, which must have one thread, and waits for its end.
// Returns the text that `body` returned. `body` enters the sandbox itself. Errors: kCorrupt: the
// child crashed, made a system call that is not allowed, took too long, or gave no text; says
// which, with the last line that it wrote to standard error.
Result<std::string> run_child(const SandboxLimits& limits,
                              const std::function<std::string()>& body);
// Ends such a child at once, as if `body` had returned `text`. Allocates nothing.
[[noreturn]] void end_child(std::string_view text) noexcept;

}  // namespace itif::serving
