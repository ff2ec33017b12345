#include "runtime/batch/head_runner.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "runtime/result_bytes.h"

namespace itif::runtime {
namespace {

using model::HeadKind;
using wire::ResultKind;
using wire::StatusCode;
using Live = BatchLayout::Live;

bool wants(const Live& live, ResultKind kind) noexcept {
  return live.request->status == StatusCode::kOk && live.request->result_kind_out == kind;
}

bool stands_on_pooler(const Live& live) noexcept {
  return wants(live, ResultKind::kPooled) || wants(live, ResultKind::kLogits) ||
         wants(live, ResultKind::kClasses);
}

float* floats(const auto& buffer) noexcept {
  return reinterpret_cast<float*>(buffer->data());
}

std::span<float> result_floats(const Live& live) noexcept {
  return {reinterpret_cast<float*>(live.request->result.data),
          live.request->result.bytes / sizeof(float)};
}

void allocate_results(std::span<const Live> all) noexcept {
  for (const Live& live : all) {
    request::Request& request = *live.request;
    const auto& model = live.tenant->model;
    const uint64_t bytes = result_bytes(model.head.spec, model.spec.hidden, request.result_kind_out,
                                        request.num_tokens);
    // The layout has bounded it by kMaxTotalBytes.
    request.result = {static_cast<std::byte*>(std::malloc(bytes)), static_cast<uint32_t>(bytes)};
    if (!request.result.data) {
      request.result = {};
      request.status = StatusCode::kInternal;
      request.detail = "no memory for the result";
    }
  }
}

// Calls body(first, last) for each longest run of adjacent segments with `same(first, other)`.
template <class Same, class Body>
void for_each_run(std::span<const Live> live, const Same& same, const Body& body) noexcept {
  for (size_t first = 0, last; first < live.size(); first = last) {
    for (last = first + 1; last < live.size() && same(live[first], live[last]); ++last) {
    }
    body(first, last);
  }
}

// Calls body(first, last) for each longest run of `chosen` (live segments, sorted by tenant) in
// which `same` holds between neighbours.
template <class Same, class Body>
void for_each_part(std::span<const uint32_t> chosen, const Same& same, const Body& body) noexcept {
  for (size_t first = 0, last; first < chosen.size(); first = last) {
    for (last = first + 1; last < chosen.size() && same(chosen[last - 1], chosen[last]); ++last) {
    }
    body(first, last);
  }
}

// Layers reserved per request: a pooler and a classifier, or two dense layers.
constexpr size_t kLinearsOfRequest = 2;

uint32_t rows_of(std::span<const Live> live, size_t first, size_t last) noexcept {
  return live[last - 1].first_row + live[last - 1].request->num_tokens - live[first].first_row;
}

}  // namespace

HeadRunner::HeadRunner(const model::BackboneSpec& spec, DType activation,
                       const GroupOptions& options, HeadScratch& scratch)
    : hidden_size_(spec.hidden), activation_(activation), scratch_(scratch) {
  chosen_.reserve(options.max_requests);
  linears_.reserve(kLinearsOfRequest * options.max_requests);
  stages_.reserve(kLinearsOfRequest * options.max_requests);
  stage_.reserve(options.max_requests);
  copies_.reserve(2 * size_t{options.max_requests});
}

Result<std::unique_ptr<HeadRunner>> HeadRunner::make(device::Device& device,
                                                     const model::BackboneSpec& spec,
                                                     const GroupOptions& options,
                                                     HeadScratch& scratch) {
  std::unique_ptr<HeadRunner> runner(
      new HeadRunner(spec, device.info().compute.activations, options, scratch));
  const size_t row_bytes = size_t{spec.hidden} * sizeof(float);
  if (runner->activation_ != DType::kF32) {
    ITIF_ASSIGN(runner->hidden_f32_, device.allocate(options.max_tokens * row_bytes));
  }
  ITIF_ASSIGN(runner->rows_, device.allocate(options.max_requests * row_bytes));
  ITIF_ASSIGN(runner->pooled_, device.allocate(options.max_requests * row_bytes));
  return runner;
}

uint64_t HeadRunner::workspace_bytes() const {
  return (hidden_f32_ ? hidden_f32_->bytes() : 0) + rows_->bytes() + pooled_->bytes();
}

void HeadRunner::launch(device::Stream& stream, const void* hidden,
                        const BatchLayout& layout) noexcept {
  linears_.clear();
  stages_.clear();
  copies_.clear();
  taken_floats_ = 0;
  allocate_results(layout.live());
  launch_hidden(stream, hidden, layout.live());
  launch_token_logits(stream, hidden, layout);
  const size_t num_pooled = launch_pooled(stream, hidden, layout);
  launch_embeddings(stream, hidden, layout, num_pooled);
  launch_linears(stream);
  for (const Copy& copy : copies_) stream.copy_to_host(copy.from, copy.bytes, copy.to);
}

float* HeadRunner::take_outputs(const BatchLayout& layout, size_t num_rows, size_t n) noexcept {
  HeadScratch::Memory* memory = scratch_.held(layout.flight_index());
  if (memory == nullptr) memory = &scratch_.hold(layout.flight_index());
  float* const outputs = floats(memory->outputs) + taken_floats_;
  taken_floats_ += HeadScratch::packed(num_rows * n);
  DCHECK(taken_floats_ * sizeof(float) <= memory->outputs->bytes());
  return outputs;
}

void HeadRunner::add_linear(uint32_t stage, const model::Linear& linear, const float* x, float* out,
                            size_t num_rows) noexcept {
  stages_.push_back(stage);
  linears_.push_back({.x = x,
                      .weight = floats(linear.weight),
                      .bias = linear.bias ? floats(linear.bias) : nullptr,
                      .out = out,
                      .rows = static_cast<uint32_t>(num_rows),
                      .n = linear.n,
                      .k = linear.k,
                      .activation = linear.activation});
}

// Makes one launch per stage, with the layers of all tenants.
void HeadRunner::launch_linears(device::Stream& stream) noexcept {
  for (uint32_t stage = 0;; ++stage) {
    stage_.clear();
    for (size_t i = 0; i < linears_.size(); ++i)
      if (stages_[i] == stage) stage_.push_back(linears_[i]);
    if (stage_.empty()) return;
    stream.launch(kernels::SmallLinears{stage_});
  }
}

void HeadRunner::copy_result(const float* from, const Live& live) noexcept {
  copies_.push_back({from, live.request->result.bytes, live.request->result.data});
}

const float* HeadRunner::rows_f32(device::Stream& stream, const void* hidden, uint32_t first_row,
                                  uint32_t num_rows) noexcept {
  const size_t first = size_t{first_row} * hidden_size_;
  const std::byte* x = static_cast<const std::byte*>(hidden) + first * dtype_bytes(activation_);
  if (!hidden_f32_) return reinterpret_cast<const float*>(x);
  float* out = floats(hidden_f32_) + first;
  stream.launch(kernels::ToF32{.x = x, .out = out, .count = size_t{num_rows} * hidden_size_});
  return out;
}

void HeadRunner::launch_hidden(device::Stream& stream, const void* hidden,
                               std::span<const Live> live) noexcept {
  const auto same = [](const Live& a, const Live& b) {
    return wants(a, ResultKind::kHidden) && wants(b, ResultKind::kHidden);
  };
  for_each_run(live, same, [&](size_t first, size_t last) {
    if (!wants(live[first], ResultKind::kHidden)) return;
    const float* rows = rows_f32(stream, hidden, live[first].first_row, rows_of(live, first, last));
    for (size_t i = first; i < last; ++i) {
      const size_t row = live[i].first_row - live[first].first_row;
      copy_result(rows + row * hidden_size_, live[i]);
    }
  });
}

template <class Wanted>
std::span<const uint32_t> HeadRunner::choose(const BatchLayout& layout,
                                             const Wanted& wanted) noexcept {
  chosen_.clear();
  for (const uint32_t i : layout.by_tenant())
    if (wanted(layout.live()[i])) chosen_.push_back(i);
  return chosen_;
}

void HeadRunner::launch_token_logits(device::Stream& stream, const void* hidden,
                                     const BatchLayout& layout) noexcept {
  const std::span<const Live> live = layout.live();
  const auto chosen =
      choose(layout, [](const Live& l) { return wants(l, ResultKind::kTokenLogits); });
  // Adjacent segments of a tenant are one multiplication.
  const auto same = [&](uint32_t a, uint32_t b) {
    return live[a].tenant == live[b].tenant && b == a + 1;
  };
  for_each_part(chosen, same, [&](size_t first, size_t last) {
    const Live& begin = live[chosen[first]];
    const model::Linear& classifier = begin.tenant->model.head.classifier.front();
    const uint32_t num_rows = rows_of(live, chosen[first], chosen[last - 1] + 1);
    const float* rows = rows_f32(stream, hidden, begin.first_row, num_rows);
    float* logits = take_outputs(layout, num_rows, classifier.n);
    add_linear(0, classifier, rows, logits, num_rows);
    for (size_t i = first; i < last; ++i) {
      const Live& one = live[chosen[i]];
      copy_result(logits + size_t{one.first_row - begin.first_row} * classifier.n, one);
    }
  });
}

// Launches the pooler and the classifier that reads its output. Without a pooler the classifier
// reads the first token's rows.
size_t HeadRunner::launch_pooled(device::Stream& stream, const void* hidden,
                                 const BatchLayout& layout) noexcept {
  const std::span<const Live> live = layout.live();
  const auto chosen = choose(layout, stands_on_pooler);
  if (chosen.empty()) return 0;
  stream.launch(kernels::PoolSegments{.x = hidden,
                                      .segments = layout.segments(),
                                      .chosen = chosen,
                                      .pooling = kernels::Pooling::kFirst,
                                      .hidden = hidden_size_,
                                      .out = floats(rows_)});
  const auto same = [&](uint32_t a, uint32_t b) { return live[a].tenant == live[b].tenant; };
  size_t host_floats = 0;  // of the tenants before
  for_each_part(chosen, same, [&](size_t first, size_t last) {
    const model::Head& head = live[chosen[first]].tenant->model.head;
    float* pooled = floats(rows_) + first * hidden_size_;
    if (!head.pooler.empty()) {
      const float* rows = pooled;
      pooled = floats(pooled_) + first * hidden_size_;
      add_linear(0, head.pooler.front(), rows, pooled, last - first);
    }
    bool any_logits = false;
    for (size_t i = first; i < last; ++i)
      any_logits |= !wants(live[chosen[i]], ResultKind::kPooled);
    const size_t labels = head.spec.labels.size();
    float* logits = any_logits ? take_outputs(layout, last - first, labels) : nullptr;
    if (any_logits)
      add_linear(head.pooler.empty() ? 0 : 1, head.classifier.front(), pooled, logits,
                 last - first);
    for (size_t i = first; i < last; ++i) {
      const Live& one = live[chosen[i]];
      if (wants(one, ResultKind::kPooled))
        copy_result(pooled + (i - first) * hidden_size_, one);
      else if (wants(one, ResultKind::kLogits))
        copy_result(logits + (i - first) * labels, one);
    }
    // finish() turns logits into classes on the host: `labels` floats per chosen segment, in their
    // order.
    const size_t num_floats = (last - first) * labels;
    if (any_logits)
      copies_.push_back(
          {logits, num_floats * sizeof(float),
           scratch_.held(layout.flight_index())->host_logits[layout.flight_index()].data() +
               host_floats});
    host_floats += num_floats;
  });
  return chosen.size();
}

// Embedding rows follow the pooled rows in rows_.
void HeadRunner::launch_embeddings(device::Stream& stream, const void* hidden,
                                   const BatchLayout& layout, size_t num_pooled) noexcept {
  const std::span<const Live> live = layout.live();
  const auto chosen =
      choose(layout, [](const Live& l) { return wants(l, ResultKind::kEmbedding); });
  // Tenants that pool in the same way share a launch, unless they have dense layers.
  const auto same = [&](uint32_t a, uint32_t b) {
    const model::HeadSpec& x = live[a].tenant->model.head.spec;
    const model::HeadSpec& y = live[b].tenant->model.head.spec;
    return live[a].tenant == live[b].tenant ||
           (x.pooling == y.pooling && x.normalize == y.normalize && x.dense.empty() &&
            y.dense.empty());
  };
  for_each_part(chosen, same, [&](size_t first, size_t last) {
    const model::Head& head = live[chosen[first]].tenant->model.head;
    float* rows = floats(rows_) + (num_pooled + first) * hidden_size_;
    stream.launch(kernels::PoolSegments{.x = hidden,
                                        .segments = layout.segments(),
                                        .chosen = chosen.subspan(first, last - first),
                                        .pooling = head.spec.pooling,
                                        .normalize = head.spec.normalize && head.dense.empty(),
                                        .hidden = hidden_size_,
                                        .out = rows});
    size_t width = hidden_size_;
    for (size_t i = 0; i < head.dense.size(); ++i) {
      float* out = take_outputs(layout, last - first, head.dense[i].n);
      add_linear(static_cast<uint32_t>(i), head.dense[i], rows, out, last - first);
      rows = out;
      width = head.dense[i].n;
    }
    for (size_t i = first; i < last; ++i) copy_result(rows + (i - first) * width, live[chosen[i]]);
  });
}

void HeadRunner::finish(const BatchLayout& layout) noexcept {
  HeadScratch::Memory* const memory = scratch_.held(layout.flight_index());
  size_t host_floats = 0;  // of the segments before
  for (const uint32_t i : layout.by_tenant()) {
    const Live& live = layout.live()[i];
    const model::HeadSpec& head = live.tenant->model.head.spec;
    const size_t labels = head.labels.size();
    if (wants(live, ResultKind::kEmbedding) && head.normalize && !head.dense.empty())
      normalize(result_floats(live));
    if (wants(live, ResultKind::kLogits) && head.has_sigmoid_logits)
      to_probabilities(result_floats(live), model::Problem::kMultiLabel);
    if (wants(live, ResultKind::kClasses)) {
      const std::span<float> logits(memory->host_logits[layout.flight_index()].data() + host_floats,
                                    labels);
      to_probabilities(logits, head.problem);
      write_classes(head, logits, std::span(memory->classes).first(labels),
                    {live.request->result.data, live.request->result.bytes});
    }
    if (stands_on_pooler(live)) host_floats += labels;
  }
  drop(layout);
}

}  // namespace itif::runtime
