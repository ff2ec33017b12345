// Runs the heads of all tenants of a batch: turns the last hidden states into the bytes of
// responses.
//
// launch() allocates the results, and queues the heads and the copies of their outputs. finish()
// runs after the stream has executed them, and does the remaining work on the host. Between the
// two, the segments' results are allocated but not valid, and another batch may be launched with
// its own layout. A segment whose result cannot be allocated or sent gets a status; the others run.
//
// Heads process the segments sorted by tenant. Independent layers of all tenants are one launch.
// All copies follow the last launch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "runtime/batch/batch_layout.h"
#include "runtime/head_scratch.h"

namespace itif::runtime {

class HeadRunner {
 public:
  // `scratch`: has the heads of all tenants of a batch; outlives the runner. Errors:
  // kResourceExhausted.
  static Result<std::unique_ptr<HeadRunner>> make(device::Device& device,
                                                  const model::BackboneSpec& spec,
                                                  const GroupOptions& options,
                                                  HeadScratch& scratch);

  // `hidden`: act [num_tokens, hidden size], device.
  void launch(device::Stream& stream, const void* hidden, const BatchLayout& layout) noexcept;
  // REQUIRES: the launches of launch() with the same layout are complete.
  void finish(const BatchLayout& layout) noexcept;
  // Call it instead of finish() if the launches have failed.
  void drop(const BatchLayout& layout) noexcept { scratch_.drop(layout.flight_index()); }

  uint64_t workspace_bytes() const;

 private:
  using Live = BatchLayout::Live;
  struct Copy {
    const float* from = nullptr;
    size_t bytes = 0;
    void* to = nullptr;
  };

  HeadRunner(const model::BackboneSpec& spec, DType activation, const GroupOptions& options,
             HeadScratch& scratch);
  // Returns a part of the batch's scratch for outputs of a head: f32 [num_rows, n].
  float* take_outputs(const BatchLayout& layout, size_t num_rows, size_t n) noexcept;
  // Returns rows of the hidden states as f32: converted, or in place if the activation type is f32.
  const float* rows_f32(device::Stream& stream, const void* hidden, uint32_t first_row,
                        uint32_t num_rows) noexcept;
  // Returns the segments of layout.by_tenant() for which `wanted(live)` is true.
  template <class Wanted>
  std::span<const uint32_t> choose(const BatchLayout& layout, const Wanted& wanted) noexcept;
  void launch_hidden(device::Stream& stream, const void* hidden,
                     std::span<const Live> live) noexcept;
  void launch_token_logits(device::Stream& stream, const void* hidden,
                           const BatchLayout& layout) noexcept;
  // Returns the number of segments that it pooled.
  size_t launch_pooled(device::Stream& stream, const void* hidden,
                       const BatchLayout& layout) noexcept;
  void launch_embeddings(device::Stream& stream, const void* hidden, const BatchLayout& layout,
                         size_t num_pooled) noexcept;
  // Layers of a stage read the outputs of earlier stages.
  void add_linear(uint32_t stage, const model::Linear& linear, const float* x, float* out,
                  size_t num_rows) noexcept;
  void launch_linears(device::Stream& stream) noexcept;
  void copy_result(const float* from, const Live& live) noexcept;

  const uint32_t hidden_size_;
  const DType activation_;
  HeadScratch& scratch_;
  size_t taken_floats_ = 0;                     // of the batch's scratch
  std::unique_ptr<device::Buffer> hidden_f32_;  // [T, hidden]; null: the activation type is f32
  std::unique_ptr<device::Buffer> rows_;        // f32 [requests, hidden]: pooled hidden states
  std::unique_ptr<device::Buffer> pooled_;      // f32 [requests, hidden]: the pooler's output
  std::vector<uint32_t> chosen_;                // live segments of a launch
  std::vector<kernels::SmallLinear> linears_, stage_;
  std::vector<uint32_t> stages_;  // of linears_
  std::vector<Copy> copies_;
};

}  // namespace itif::runtime
