// From the last hidden states to results: the heads of all tenants of a batch, and the bytes that go
// into responses.
//
// launch() allocates the results, queues the heads and the copies of what they give; finish() runs
// after the stream has come so far and does what is left on the host. Between the two the segments'
// results are allocated but not yet valid, and another batch may be launched, with a layout of its own. A
// segment whose result cannot be allocated or sent gets a status, and the others run.
//
// Heads take the segments sorted by tenant; layers of all tenants that need not wait for each other are one launch, and
// what is copied is copied behind all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "runtime/batch_layout.h"

namespace itif::runtime {

class HeadRunner {
 public:
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<HeadRunner>> make(device::Device& device,
                                                  const model::BackboneSpec& spec,
                                                  const GroupOptions& options);

  // `hidden`: act [num_tokens, hidden size], device.
  void launch(device::Stream& stream, const void* hidden, const BatchLayout& layout) noexcept;
  // REQUIRES: what launch() with the same layout has launched is complete.
  void finish(const BatchLayout& layout) noexcept;

  uint64_t workspace_bytes() const;

 private:
  using Live = BatchLayout::Live;
  struct Copy {
    const float* from = nullptr;
    size_t bytes = 0;
    void* to = nullptr;
  };

  HeadRunner(const model::BackboneSpec& spec, DType compute, const GroupOptions& options);
  // Rows of the hidden states as f32: converted, or in place if that is the activation type.
  const float* rows_f32(device::Stream& stream, const void* hidden, uint32_t first_row,
                        uint32_t num_rows) noexcept;
  // Those of layout.by_tenant() that `wanted(live)` holds for.
  template <class Wanted>
  std::span<const uint32_t> choose(const BatchLayout& layout, const Wanted& wanted) noexcept;
  void launch_hidden(device::Stream& stream, const void* hidden,
                     std::span<const Live> live) noexcept;
  void launch_token_logits(device::Stream& stream, const void* hidden,
                           const BatchLayout& layout) noexcept;
  // Returns how many segments it pooled.
  size_t launch_pooled(device::Stream& stream, const void* hidden,
                       const BatchLayout& layout) noexcept;
  void launch_embeddings(device::Stream& stream, const void* hidden, const BatchLayout& layout,
                         size_t num_pooled) noexcept;
  // A stage's layers read what those of earlier stages wrote.
  void add_linear(uint32_t stage, const model::Linear& linear, const float* x, float* out,
                  size_t num_rows) noexcept;
  void launch_linears(device::Stream& stream) noexcept;
  void copy_result(const float* from, const Live& live) noexcept;

  const uint32_t hidden_size_;
  const DType compute_;
  std::unique_ptr<device::Buffer> hidden_f32_;  // [T, hidden]; null: the activation type is f32
  std::unique_ptr<device::Buffer> rows_;        // f32 [requests, hidden]: pooled hidden states
  std::unique_ptr<device::Buffer> pooled_;      // f32 [requests, hidden]: the pooler's output
  std::vector<uint32_t> chosen_;                // live segments that a launch is for
  std::vector<kernels::SmallLinear> linears_, stage_;
  std::vector<uint32_t> stages_;  // of linears_
  std::vector<Copy> copies_;
};

}  // namespace itif::runtime
