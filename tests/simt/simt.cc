#include "simt.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {
namespace {

namespace context = boost::context;

// Frames are larger under the sanitizers.
constexpr size_t kStackBytes = 256 << 10;
constexpr uint32_t kMaxThreads = 1024;
constexpr int kUnset = 0xFF;  // NaN in every floating type

enum class State : uint8_t { kReady, kAtBlock, kAtWarp, kReturned };

struct AsyncCopy {
  std::byte* to;
  size_t bytes;
  const void* from;
  size_t bytes_read;
  uint64_t group;
};

struct Warp;

struct Thread {
  context::fiber fiber, scheduler;
  State state = State::kReturned;
  Position position;
  uint32_t lane = 0;
  Warp* warp = nullptr;
  uint64_t exchanges = 0;  // exchanges of its warp that it took part in
  size_t pieces_taken = 0;
  std::vector<AsyncCopy> copies;
  uint64_t copy_group = 0;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
};

// A guarded stack whose address the thread knows.
class Stack {
 public:
  explicit Stack(Thread& thread) : thread_(&thread) {}
  context::stack_context allocate() {
    const context::stack_context stack = guarded_.allocate();
    thread_->stack_bottom = static_cast<std::byte*>(stack.sp) - stack.size;
    thread_->stack_bytes = stack.size;
    return stack;
  }
  void deallocate(context::stack_context& stack) noexcept { guarded_.deallocate(stack); }

 private:
  context::protected_fixedsize_stack guarded_{kStackBytes};
  Thread* thread_;
};

// Two sets of slots, used alternately: a lane that still reads one exchange is not overwritten by
// the next one.
struct Warp {
  alignas(16) std::array<std::array<std::byte, kWarpThreads * kMaxExchanged>, 2> slots;
  uint32_t waiting = 0;  // lanes
  uint32_t mask = 0;     // that they wait for
  uint32_t lanes = 0;    // that the warp has
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
struct Piece {
  std::unique_ptr<void, Free> memory;  // of exactly `bytes`
  size_t bytes = 0;
};

class Machine {
 public:
  void set_seed(uint64_t seed) { random_.seed(seed); }

  void run(const char* name, Dim3 grid, Dim3 block, size_t shared_bytes,
           const std::function<void()>& thread) {
    if (running_) fail("a kernel is launched from a kernel");
    name_ = name;
    shared_bytes_ = shared_bytes;
    body_ = &thread;
    const uint64_t count = block.count();
    if (count == 0 || count > kMaxThreads) fail("a block has no threads, or more than 1024");
    std::vector<uint64_t> order(grid.count());
    for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    running_ = true;
    make_threads(static_cast<uint32_t>(count));
    for (const uint64_t number : order) run_block(number, grid, block);
    running_ = false;
  }

  Thread& current() {
    if (current_ == nullptr) fail("a function for kernels is called outside of a kernel");
    return *current_;
  }

  void wait(State state) {
    Thread& self = current();
    self.state = state;
    switch_out(self);
  }

  void sync_block() {
    ++at_block_;
    if (at_block_ == num_threads_) {
      at_block_ = 0;
      for (uint32_t i = 0; i < num_threads_; ++i)
        if (threads_[i]->state == State::kAtBlock) warm_up(*threads_[i]);
      warm_up(current());
      switch_out(current());
    } else {
      wait(State::kAtBlock);
    }
  }

  void sync_warp(uint32_t mask) {
    Thread& self = current();
    Warp& warp = *self.warp;
    if ((mask & warp.lanes) != mask || !(mask >> self.lane & 1))
      fail("a warp mask names lanes that do not exist, or not the caller's");
    if (warp.waiting != 0 && warp.mask != mask) fail("lanes of a warp wait for different masks");
    warp.mask = mask;
    warp.waiting |= 1u << self.lane;
    if (warp.waiting != mask) return wait(State::kAtWarp);
    warp.waiting = 0;
    for (uint32_t i = 0; i < num_threads_; ++i)
      if (threads_[i]->warp == &warp && threads_[i]->state == State::kAtWarp) warm_up(*threads_[i]);
    warm_up(self);
    switch_out(self);
  }

  Exchanged exchange(uint32_t mask, const void* value, size_t bytes) {
    Thread& self = current();
    auto& slots = self.warp->slots[self.exchanges++ % 2];
    std::memcpy(slots.data() + self.lane * kMaxExchanged, value, bytes);
    sync_warp(mask);
    return Exchanged(slots.data());
  }

  void* take_shared(size_t bytes, size_t alignment) {
    Thread& self = current();
    const size_t at = self.pieces_taken++;
    if (at == pieces_.size()) {
      taken_ = (taken_ + alignment - 1) / alignment * alignment + bytes;
      if (taken_ > shared_bytes_)
        fail("a block takes more shared memory than it was launched with");
      Piece& piece = pieces_.emplace_back();
      piece.memory.reset(std::malloc(bytes));  // at least 16-byte aligned
      piece.bytes = bytes;
      std::memset(piece.memory.get(), kUnset, bytes);
    }
    if (pieces_[at].bytes != bytes)
      fail("threads of a block take different pieces of shared memory");
    return pieces_[at].memory.get();
  }

  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "simt: kernel %s: %s", name_, what);
    if (current_ != nullptr) {
      const Position& p = current_->position;
      std::fprintf(stderr, " (block %u,%u,%u thread %u,%u,%u)", p.block.x, p.block.y, p.block.z,
                   p.thread.x, p.thread.y, p.thread.z);
    }
    std::fputc('\n', stderr);
    std::abort();
  }

 private:
  void make_threads(uint32_t count) {
    num_threads_ = count;
    while (warps_.size() * kWarpThreads < count) warps_.push_back(std::make_unique<Warp>());
    while (threads_.size() < count) {
      auto& thread = *threads_.emplace_back(std::make_unique<Thread>());
      thread.fiber = context::fiber(std::allocator_arg, Stack(thread),
                                    [this, &thread](context::fiber&& scheduler) {
                                      thread.scheduler = std::move(scheduler);
                                      finish_first_switch();
                                      // One fiber runs a thread of many blocks: creating a fiber
                                      // takes longer than most threads run.
                                      for (;;) {
                                        (*body_)();
                                        thread.state = State::kReturned;
                                        switch_out(thread);
                                      }
                                      return std::move(thread.scheduler);  // never reached
                                    });
    }
  }

  void run_block(uint64_t number, Dim3 grid, Dim3 block) {
    const Dim3 at{static_cast<uint32_t>(number % grid.x),
                  static_cast<uint32_t>(number / grid.x % grid.y),
                  static_cast<uint32_t>(number / grid.x / grid.y)};
    pieces_.clear();
    taken_ = 0;
    at_block_ = 0;
    for (auto& warp : warps_) warp->waiting = warp->lanes = 0;
    for (uint32_t i = 0; i < num_threads_; ++i) {
      Thread& thread = *threads_[i];
      thread.position = {.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y},
                         .block = at,
                         .block_size = block,
                         .grid_size = grid};
      thread.lane = i % kWarpThreads;
      thread.warp = warps_[i / kWarpThreads].get();
      thread.warp->lanes |= 1u << thread.lane;
      thread.exchanges = thread.pieces_taken = 0;
      thread.copies.clear();
      thread.copy_group = 0;
      warm_up(thread);
    }
    uint32_t returned = 0;
    while (!ready_.empty()) {
      const size_t at = std::uniform_int_distribution<size_t>(0, ready_.size() - 1)(random_);
      Thread& next = *ready_[at];
      ready_[at] = ready_.back();
      ready_.pop_back();
      switch_to(next);
      if (next.state == State::kReturned) {
        ++returned;
        if (!next.copies.empty())
          fail("a thread returns with asynchronous copies that it never waited for");
      }
    }
    if (returned < num_threads_)
      fail("threads wait for a barrier or an exchange, but others have returned");
  }

  void warm_up(Thread& thread) {
    thread.state = State::kReady;
    ready_.push_back(&thread);
  }

  void switch_to(Thread& thread) {
    current_ = &thread;
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, thread.stack_bottom, thread.stack_bytes);
    thread.fiber = std::move(thread.fiber).resume();
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
    thread.fiber = std::move(thread.fiber).resume();
#endif
    current_ = nullptr;
  }
  void switch_out(Thread& thread) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, scheduler_bottom_, scheduler_bytes_);
    thread.scheduler = std::move(thread.scheduler).resume();
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_bottom_, &scheduler_bytes_);
#else
    thread.scheduler = std::move(thread.scheduler).resume();
#endif
  }
  // Called when a fiber runs for the first time.
  void finish_first_switch() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom_, &scheduler_bytes_);
#endif
  }

  std::mt19937_64 random_{1};
  const char* name_ = "";
  const std::function<void()>* body_ = nullptr;
  size_t shared_bytes_ = 0;
  bool running_ = false;
  uint32_t num_threads_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::vector<Thread*> ready_;
  Thread* current_ = nullptr;
  uint32_t at_block_ = 0;
  std::vector<Piece> pieces_;
  size_t taken_ = 0;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_bytes_ = 0;
#endif
};

// Never destroyed: destroying a suspended fiber throws on its stack, which AddressSanitizer reports
// as an overflow of that stack.
Machine& machine() {
  static auto& one = *new Machine;
  return one;
}

}  // namespace

void set_seed(uint64_t seed) {
  machine().set_seed(seed);
}
void run_grid(const char* name, Dim3 grid, Dim3 block, size_t shared_bytes,
              const std::function<void()>& thread) {
  machine().run(name, grid, block, shared_bytes, thread);
}
const Position& position() {
  return machine().current().position;
}
uint32_t lane() {
  return machine().current().lane;
}
void sync_block() {
  machine().sync_block();
}
void sync_warp(uint32_t mask) {
  machine().sync_warp(mask);
}
void* take_shared(size_t bytes, size_t alignment) {
  return machine().take_shared(bytes, alignment);
}
Exchanged exchange(uint32_t mask, const void* value, size_t bytes) {
  return machine().exchange(mask, value, bytes);
}
void fail(const char* what) {
  machine().fail(what);
}

void copy_async(void* shared, size_t bytes, const void* global, size_t bytes_read) {
  Thread& self = machine().current();
  std::memset(shared, kUnset, bytes);
  self.copies.push_back(
      {static_cast<std::byte*>(shared), bytes, global, bytes_read, self.copy_group});
}
void commit_copies() {
  ++machine().current().copy_group;
}
void wait_for_copies(uint32_t groups_left) {
  Thread& self = machine().current();
  std::erase_if(self.copies, [&](const AsyncCopy& copy) {
    if (copy.group + groups_left >= self.copy_group) return false;
    std::memcpy(copy.to, copy.from, copy.bytes_read);
    std::memset(copy.to + copy.bytes_read, 0, copy.bytes - copy.bytes_read);
    return true;
  });
}

}  // namespace simt
