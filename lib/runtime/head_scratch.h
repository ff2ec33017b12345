// The memory for the outputs of the heads of a group's tenants: one for all of them, as large as
// the largest head needs, since their batches run one after another. It grows when a tenant with a
// larger head is admitted, and shrinks when that tenant is released.
//
// A batch divides the memory among its tenants (batch/head_runner.h). It holds the memory from its
// launch to its end. Memory that is replaced meanwhile is kept for it, and freed by the first
// add() or remove() after its end. The executor allocates nothing and waits for nobody.
//
// Threads: any, except where a function names the executor.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "model/head_spec.h"
#include "runtime/group.h"
#include "wire/classes.h"

namespace itif::runtime {

class HeadScratch {
 public:
  // Outputs of a layer start on a multiple of this many floats. CUDA kernels load so many at once.
  static constexpr uint64_t kPackFloats = 4;
  static constexpr uint64_t packed(uint64_t floats) {
    return (floats + kPackFloats - 1) / kPackFloats * kPackFloats;
  }

  // The need of a head, or the largest need of several heads. A request has outputs of one head.
  struct Size {
    uint64_t request_floats = 0;  // outputs per request, each layer's as packed()
    uint64_t token_floats = 0;    // outputs per token, as packed()
    uint64_t labels = 0;          // of a classifier of requests
    bool operator==(const Size&) const = default;
    bool holds(const Size& other) const {
      return request_floats >= other.request_floats && token_floats >= other.token_floats &&
             labels >= other.labels;
    }
  };
  struct Memory {
    Size size;
    std::unique_ptr<device::Buffer> outputs;  // f32; null: no outputs
    // By flight index: outputs of classifiers of requests, [max_requests, labels] or less.
    std::array<std::vector<float>, device::Stream::kMaxPending> host_logits;
    std::vector<wire::ClassEntry> classes;  // [labels]
    uint64_t bytes() const { return outputs ? outputs->bytes() : 0; }
  };

  HeadScratch(device::Device& device, const GroupOptions& options)
      : device_(device), options_(options) {}
  ~HeadScratch() { delete current_.load(); }
  HeadScratch(const HeadScratch&) = delete;
  HeadScratch& operator=(const HeadScratch&) = delete;

  // Returns the device memory of a group that has only this head.
  static uint64_t bytes_of(const model::HeadSpec& head, const GroupOptions& options);
  // Returns the device memory that add() takes now. It frees the memory that it replaces later.
  uint64_t added_bytes(const model::HeadSpec& head) const;
  // Call it before a batch names the head's tenant. Changes nothing on error. Errors:
  // kResourceExhausted.
  Status add(const model::HeadSpec& head);
  // REQUIRES: the head was added; no batch names its tenant.
  void remove(const model::HeadSpec& head);
  // Device memory, also of memory that a batch still holds. Takes no lock.
  uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  // Returns memory for all tenants of a batch, which holds it until drop(). REQUIRES: a tenant of
  // the batch has a head with outputs; the batch of this index before it has ended. The executor's
  // thread.
  Memory& hold(uint32_t flight_index) noexcept;
  // Returns the memory that the batch holds; nullptr: none. The executor's thread.
  Memory* held(uint32_t flight_index) const noexcept {
    return held_[flight_index].load(std::memory_order_relaxed);
  }
  // Ends hold(), if the batch holds memory. REQUIRES: the batch's launches are complete. The
  // executor's thread.
  void drop(uint32_t flight_index) noexcept {
    held_[flight_index].store(nullptr, std::memory_order_release);
  }

 private:
  static Size size_of(const model::HeadSpec& head);
  static uint64_t bytes_of(const Size& size, const GroupOptions& options);
  // The functions below REQUIRE mutex_.
  Size needed() const;  // of heads_
  Result<std::unique_ptr<Memory>> allocate(const Size& size) const;
  void replace(std::unique_ptr<Memory> memory);  // null: no head needs any
  void free_unheld();

  device::Device& device_;
  const GroupOptions options_;
  mutable std::mutex mutex_;                       // guards the members below
  std::vector<Size> heads_;                        // added
  std::vector<std::unique_ptr<Memory>> replaced_;  // that a batch may hold

  std::atomic<Memory*> current_ = nullptr;  // owned; written with mutex_ held
  std::array<std::atomic<Memory*>, device::Stream::kMaxPending> held_ = {};  // by flight index
  std::atomic<uint64_t> bytes_ = 0;  // written with mutex_ held
};

}  // namespace itif::runtime
