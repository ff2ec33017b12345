// CUDA kernels on the CPU, thread by thread: what the headers in include/ stand on, so that the sources of
// kernels/cuda are compiled unchanged by the host's compiler, run under its sanitizers, and are caught at
// what a GPU would let pass.
//
// A grid's blocks run one after another, in random order. A block's threads are fibers of the OS thread that
// launched it; one runs until it waits for others (a barrier, a warp's exchange) and then any that is ready goes
// on, chosen at random: what needs a barrier and has none reads too early in some order. The order follows from
// the seed alone. Shared memory is taken piece by piece from the heap and starts as NaNs, so that the address
// sanitizer sees what lies outside a piece, and a result what was never written.
//
// What a GPU leaves undefined ends the process with a message: a barrier that some of its threads can never
// reach, an exchange with lanes that do not take part, more shared memory than was asked for.
//
// One grid at a time: launches come from the runtime (runtime.h), which holds a lock.
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
inline constexpr size_t kMostExchanged = 64;  // bytes a lane

// Of what follows: block and thread order. Tests print it where they fail.
void set_seed(uint64_t seed);

// Runs thread() as every thread of the grid. `shared_bytes`: what its blocks may take.
void run_grid(const char* name, Dim3 grid, Dim3 block, size_t shared_bytes,
              const std::function<void()>& thread);

// ---- In a kernel ----

struct Place {
  Dim3 thread, block;          // whose indices count from 0
  Dim3 block_size, grid_size;  // in threads, in blocks
};
const Place& place();
uint32_t lane();

// All threads of the block that it had at its start.
void sync_block();
// All lanes of the mask, the caller among them.
void sync_warp(uint32_t mask);

// The caller's next piece of its block's shared memory: the n-th of every thread is the same.
void* take_shared(size_t bytes, size_t alignment);

// Writes `bytes`: the first `bytes_read` of those at `global`, and zeros behind them (cp.async). They are there when
// they were waited for; until then the target holds NaNs, neither what was there nor what comes. A group ends at commit.
void copy_async(void* shared, size_t bytes, const void* global, size_t bytes_read);
void commit_copies();
void wait_for_copies(uint32_t groups_left);

// What every lane of the mask hands in, by lane; valid until the caller's next exchange.
class Exchanged {
 public:
  explicit Exchanged(const std::byte* values) : values_(values) {}
  template <class T>
  T of(uint32_t lane) const {
    T value;
    std::memcpy(&value, values_ + lane * kMostExchanged, sizeof(T));
    return value;
  }

 private:
  const std::byte* values_;
};
Exchanged exchange(uint32_t mask, const void* value, size_t bytes);
template <class T>
Exchanged exchange(uint32_t mask, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostExchanged);
  return exchange(mask, &value, sizeof(T));
}

// Fails unless the runtime would let the GPU read these bytes of the host.
void check_host_read(const void* data, size_t bytes);

// Ends the process: what a kernel did that a GPU leaves undefined, and where.
[[noreturn]] void fail(const char* what);

}  // namespace simt
