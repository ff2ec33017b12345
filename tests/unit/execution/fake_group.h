// A Group without a model. It answers each request with the request's token ids as f32, each
// repeated `per_token` times. A test can so match answers to requests and make responses of any
// length.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "device/stream/async_stream.h"
#include "runtime/batch/executor.h"
#include "runtime/request_ids.h"
#include "support/null_stream.h"

namespace itif::execution::test {

class FakeGroup final : public runtime::EncoderGroup {
 public:
  uint32_t per_token = 1;
  bool fail_next = false;
  wire::StatusCode refuse_with = wire::StatusCode::kOk;  // all requests, unless kOk
  std::atomic<uint32_t> batches = 0;
  std::function<void()> on_forward;  // called in each batch
  uint64_t cost_ns_per_token = 0;    // added to `clock`
  uint64_t cost_ns_per_batch = 0;
  VirtualClock* clock = nullptr;

  FakeGroup() {
    model_.max_tokens = model_.max_text_tokens = 512;
    spec_.type_vocab = 2;
  }
  FakeGroup(const model::BackboneSpec& spec, const runtime::GroupOptions& options) : FakeGroup() {
    spec_ = spec;
    options_ = options;
    model_.spec = spec;
  }
  const model::BackboneSpec& spec() const noexcept override { return spec_; }
  const runtime::GroupOptions& options() const noexcept override { return options_; }
  // Calls on_admit, which may throw as a loader's progress callback may, and assigns the lowest
  // free slot.
  std::function<void(const model::Progress&)> on_admit;
  std::function<Status()> may_admit;  // then called; null: it may
  Result<uint32_t> admit(const model::ModelFiles& files, const model::Progress& progress) override {
    try {
      if (on_admit) on_admit(progress);
    } catch (const std::exception& e) {
      return fail(Code::kInternal, files.directory + ": " + e.what());
    }
    if (may_admit) ITIF_TRY(may_admit());
    const std::lock_guard lock(mutex_);
    if (num_tenants_ == max_models) return fail(Code::kResourceExhausted, "no memory for a model");
    const auto free = std::ranges::find(is_taken_, false);
    *free = true;
    ++num_tenants_;
    return static_cast<uint32_t>(free - is_taken_.begin());
  }
  void release(uint32_t slot) override {
    const std::lock_guard lock(mutex_);
    is_taken_.at(slot) = false;
    --num_tenants_;
  }
  uint32_t max_models = 64;  // that its memory holds
  void set_model_bytes(uint64_t bytes) { model_.weight_bytes = bytes; }
  const model::TenantModel* model(uint32_t slot) const noexcept override {
    return slot < is_taken_.size() ? &model_ : nullptr;
  }
  // ProfiledWork::launch_pass; called with the numbers of requests and tokens.
  std::function<void(uint32_t, uint32_t)> on_pass;
  ProfiledWork profiled_work() override {
    if (!on_pass) return {};
    return {.launch_pass = [this](device::Stream&, uint32_t requests, uint32_t tokens) {
      on_pass(requests, tokens);
    }};
  }
  size_t buckets = 0;
  std::vector<size_t> warmed_up;  // graph buckets captured, by index
  size_t failing_bucket = SIZE_MAX;
  size_t num_buckets() const noexcept override { return buckets; }
  Status warm_up(device::Stream&, size_t bucket) noexcept override {
    warmed_up.push_back(bucket);
    if (bucket == failing_bucket) return fail(Code::kInternal, "the device has no graphs");
    return {};
  }
  uint32_t num_tenants() const noexcept override { return num_tenants_; }
  uint64_t weight_bytes() const noexcept override { return 0; }
  uint64_t workspace_bytes_per_token = 0;
  uint64_t kv_bytes = 0;
  uint64_t workspace_bytes() const noexcept override {
    return workspace_bytes_per_token * options_.max_tokens + kv_bytes;
  }
  uint64_t cache_bytes() const noexcept override { return kv_bytes; }
  Result<std::unique_ptr<runtime::RequestExecutor>> make_executor(
      device::Stream& stream, const Clock& executor_clock,
      const runtime::ExecutorOptions& options) override {
    return runtime::GroupExecutor::create(*this, stream, executor_clock, options);
  }

  void begin(device::Stream& stream, runtime::Batch& batch, uint32_t flight) noexcept override {
    ++batches;
    if (on_forward) on_forward();
    if (clock) clock->advance_ns(cost_ns_per_batch);
    answers_[flight].clear();
    for (const runtime::BatchRequest& segment : batch.segments) {
      if (clock) clock->advance_ns(cost_ns_per_token * segment.request->num_tokens);
      std::vector<float>& out = answers_[flight].emplace_back();
      pieces_.clear();
      runtime::RequestIds(*segment.request, segment.prepared).append_to(pieces_, 0);
      for (const kernels::IdPiece& piece : pieces_) {
        for (uint32_t i = 0; i < piece.num_ids; ++i) {
          uint32_t id = 0;
          std::memcpy(&id, piece.data + i * piece.id_bytes, piece.id_bytes);
          out.insert(out.end(), per_token, static_cast<float>(id));
        }
      }
    }
    stream.end_inputs();
  }
  Status finish(runtime::Batch& batch, uint32_t flight, Status) noexcept override {
    for (size_t s = 0; s < batch.segments.size(); ++s) {
      request::Request& request = *batch.segments[s].request;
      if (fail_next) {
        request.status = wire::StatusCode::kDeviceFailed;
        request.detail = "the device failed";
        continue;
      }
      if (refuse_with != wire::StatusCode::kOk) {
        request.status = refuse_with;
        request.detail = "refused";
        continue;
      }
      const std::vector<float>& out = answers_[flight][s];
      request.status = wire::StatusCode::kOk;
      request.detail = "";
      request.result.bytes = static_cast<uint32_t>(out.size() * 4);
      request.result.data = static_cast<std::byte*>(std::malloc(out.size() * 4));
      std::memcpy(request.result.data, out.data(), out.size() * 4);
      request.result_kind_out = wire::ResultKind::kHidden;
      request.result_rows = request.num_tokens;
    }
    if (fail_next) return fail(Code::kInternal, "the device failed");
    return {};
  }

 private:
  model::BackboneSpec spec_;
  runtime::GroupOptions options_;
  std::atomic<uint32_t> num_tenants_{0};
  std::mutex mutex_;
  std::array<bool, 64> is_taken_{};  // by slot; guarded by mutex_
  model::TenantModel model_;
  std::vector<kernels::IdPiece> pieces_;                               // of one request
  std::array<std::vector<std::vector<float>>, kMaxInFlight> answers_;  // by flight, by segment
};

// Ends no batch while `holds` is set, and has not read a batch's inputs while `reads` is set.
class LateStream final : public testing::NullStream {
 public:
  LateStream(const std::atomic<bool>& holds, const std::atomic<bool>& reads)
      : holds_(holds), reads_(reads) {}
  bool is_done(Event) const noexcept override { return !holds_; }
  bool inputs_read(Event) const noexcept override { return !reads_; }
  bool calls_on_done() const noexcept override { return false; }
  Completion wait(Event) override {
    while (holds_) std::this_thread::yield();
    return {};
  }

 private:
  const std::atomic<bool>& holds_;
  const std::atomic<bool>& reads_;
};

// Keeps its share.
class ShareStream final : public testing::NullStream {
 public:
  explicit ShareStream(std::atomic<double>& percent) : percent_(percent) {}
  void set_percent(double percent) noexcept override { percent_ = percent; }

 private:
  std::atomic<double>& percent_;
};

class FakeDevice : public device::Device {
 public:
  const device::DeviceInfo& info() const override { return info_; }
  size_t available_bytes() const override { return 0; }
  Result<std::unique_ptr<device::Buffer>> allocate(size_t) override { return none(); }
  Result<std::unique_ptr<device::SlabMemory>> reserve_slab(size_t, uint32_t) override {
    return none();
  }
  Status upload(const TensorView&, DType, void*) override { return none(); }
  void download(const void*, size_t, void*) override {}
  Result<size_t> packed_bytes(const device::GemmShape&) override { return 0u; }
  Status pack(const device::GemmShape&, std::span<const TensorView>, void*) override {
    return none();
  }
  Result<device::GemmHandle> prepare(const device::GemmShape&, uint32_t) override {
    return nullptr;
  }
  uint32_t row_slack() const override { return 0; }
  Status register_host_memory(const void*, size_t) override { return {}; }
  Status reset() override {
    ++num_resets;
    if (fails_reset) return fail(Code::kInternal, "it does not come back");
    if (is_in_use) return fail(Code::kUnavailable, "its memory is in use");
    return {};
  }
  void set_memory_bytes(size_t bytes) { info_.memory_bytes = bytes; }
  void divide_time() { info_.division = device::Division::kTime; }
  void divide_processors(uint32_t slice_steps = 0) {
    info_.division = device::Division::kProcessors;
    info_.slice_steps = slice_steps;
  }
  int num_resets = 0;
  bool fails_reset = false;
  bool is_in_use = false;  // refuses to be reset
  bool is_late = false;    // makes LateStreams
  bool has_no_stream = false;
  std::vector<device::Share> shares;         // of each stream made
  std::deque<std::atomic<double>> percents;  // the latest of each stream, if it divides processors
  std::atomic<bool> holds{false};            // LateStreams end no batch
  std::atomic<bool> reads{false};            // LateStreams read the inputs of their batches
  Result<std::unique_ptr<device::Stream>> make_stream(
      const device::StreamLimits&, const device::StreamOptions& options) override {
    if (has_no_stream) return fail(Code::kResourceExhausted, "no stream");
    shares.push_back(options.share);
    if (is_late) return std::make_unique<LateStream>(holds, reads);
    if (info_.division == device::Division::kProcessors)
      return std::make_unique<ShareStream>(percents.emplace_back(0));
    auto stream = std::make_unique<testing::NullStream>();
    if (!options.is_async) return stream;
    return device::AsyncStream::make(std::move(stream), options);
  }

 private:
  static std::unexpected<Error> none() { return fail(Code::kUnsupported, "not in this test"); }
  device::DeviceInfo info_;
};

}  // namespace itif::execution::test
