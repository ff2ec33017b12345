// Runs CUDA kernels on the CPU, thread by thread. The headers in include/ are built on this, so
// that the host's compiler compiles the sources of kernels/cuda unchanged. Kernels then run under
// the sanitizers, which catch errors that a GPU would let pass.
//
// The blocks of a grid run one after another, in random order. The threads of a block are fibers of
// the OS thread that launched it. One runs until it waits for others (at a barrier or a warp's
// exchange); then a random one of those that are ready continues. Code that lacks a barrier thus
// reads too early in some order. The seed alone determines the order. Shared memory is taken from
// the heap, one allocation per piece, and starts as NaNs: the address sanitizer detects accesses
// outside a piece, and results show values that were never written.
//
// Undefined behaviour of a GPU ends the process with a message: a barrier that some threads can
// never reach, an exchange with lanes that do not take part, more shared memory than requested.
//
// One grid runs at a time: launches come from the runtime (runtime.h), which holds a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace simt {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

inline constexpr uint32_t kWarpThreads = 32;
inline constexpr size_t kMaxExchanged = 64;  // bytes per lane

// Sets the block and thread order of later grids. Tests print the seed when they fail.
void set_seed(uint64_t seed);

// Runs thread() as every thread of the grid. `shared_bytes`: shared memory per block, at most.
void run_grid(const char* name, Dim3 grid, Dim3 block, size_t shared_bytes,
              const std::function<void()>& thread);

// ---- In a kernel ----

struct Position {
  Dim3 thread, block;          // indices from 0
  Dim3 block_size, grid_size;  // in threads, in blocks
};
const Position& position();
uint32_t lane();

// Waits for all threads that the block had at its start.
void sync_block();
// Waits for all lanes of the mask, which must include the caller.
void sync_warp(uint32_t mask);

// Returns the caller's next piece of its block's shared memory. The n-th piece of all threads is
// the same.
void* take_shared(size_t bytes, size_t alignment);

// Writes `bytes`: the first `bytes_read` of those at `global`, then zeros (cp.async). They arrive
// when they are waited for. Until then the target holds NaNs, neither old nor new values. A group
// ends at commit_copies().
void copy_async(void* shared, size_t bytes, const void* global, size_t bytes_read);
void commit_copies();
void wait_for_copies(uint32_t groups_left);

// The values that the lanes of the mask pass in, by lane. Valid until the caller's next exchange.
class Exchanged {
 public:
  explicit Exchanged(const std::byte* values) : values_(values) {}
  template <class T>
  T of(uint32_t lane) const {
    T value;
    std::memcpy(&value, values_ + lane * kMaxExchanged, sizeof(T));
    return value;
  }

 private:
  const std::byte* values_;
};
Exchanged exchange(uint32_t mask, const void* value, size_t bytes);
template <class T>
Exchanged exchange(uint32_t mask, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxExchanged);
  return exchange(mask, &value, sizeof(T));
}

// Ends the process unless the runtime lets the GPU read these bytes of the host.
void check_host_read(const void* data, size_t bytes);

// Ends the process and prints the undefined behaviour and the thread that caused it.
[[noreturn]] void fail(const char* what);

}  // namespace simt
