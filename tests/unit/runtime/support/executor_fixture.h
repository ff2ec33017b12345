// An executor on a virtual clock. Its group computes nothing and takes a known time, on a
// synchronous or an asynchronous stream.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <vector>

#include "runtime/batch/executor.h"
#include "support/null_stream.h"

namespace itif::testing {

// Work takes virtual time. A synchronous stream advances the clock; work of an asynchronous one
// ends when the test has advanced it.
class TimedStream final : public NullStream {
 public:
  explicit TimedStream(VirtualClock& clock) : clock_(clock) {}
  bool is_async = false;
  // The time from the start of work until its inputs have been read, at most until its end.
  uint64_t reading_ns = UINT64_MAX;

  void add(uint64_t ns) {
    if (is_async)
      launched_ns_ += ns;
    else
      clock_.advance_ns(ns);
  }
  // The end of all recorded work.
  uint64_t end_ns() const { return end_ns_; }
  // The end of the oldest recorded work that was not waited for; 0: none.
  uint64_t next_end_ns() const { return num_waited_ < num_recorded_ ? of(num_waited_).end_ns : 0; }
  uint64_t idle_ns = 0;  // gaps between works

  Event record() override {
    const uint64_t start_ns = std::max(end_ns_, clock_.now_ns());
    if (end_ns_ != 0) idle_ns += start_ns - end_ns_;
    end_ns_ = start_ns + launched_ns_;
    works_[num_recorded_ % works_.size()] = {start_ns, end_ns_, launched_ns_};
    launched_ns_ = 0;
    return num_recorded_++;
  }
  bool is_done(Event event) const noexcept override { return clock_.now_ns() >= of(event).end_ns; }
  bool inputs_read(Event event) const noexcept override {
    EXPECT_GE(event, num_waited_);
    const Work& work = of(event);
    return is_done(event) ||
           (clock_.now_ns() >= work.start_ns && clock_.now_ns() - work.start_ns >= reading_ns);
  }
  Completion wait(Event event) override {
    EXPECT_EQ(event, num_waited_++);
    if (!is_done(event)) clock_.advance_ns(of(event).end_ns - clock_.now_ns());
    return {.status = fails ? Status(fail(Code::kInternal, "failure on request")) : Status(),
            .device_ns = of(event).ns};
  }
  bool fails = false;

 private:
  struct Work {
    uint64_t start_ns = 0, end_ns = 0, ns = 0;
  };
  const Work& of(Event event) const { return works_[event % works_.size()]; }

  VirtualClock& clock_;
  std::array<Work, 4> works_;
  uint64_t launched_ns_ = 0, end_ns_ = 0;
  Event num_recorded_ = 0, num_waited_ = 0;
};

// Takes 10 ms plus 0.1 ms a token, and answers each segment with one number.
class TimedGroup final : public runtime::EncoderGroup {
 public:
  TimedGroup() {
    for (uint32_t slot = 0; slot < models_.size(); ++slot) {
      models_[slot].slot = models_[slot].weight_slot = slot;
      models_[slot].max_tokens = models_[slot].max_text_tokens = 512;
    }
  }
  uint32_t batches = 0;
  uint64_t slower = 1;
  uint32_t free_slot = UINT32_MAX;  // no tenant is in it
  runtime::PassLimits limits_of_pass = {};
  std::function<void()> on_begin = [] {};
  std::function<void(std::span<const runtime::BatchRequest>)> on_batch = [](auto) {};

  const model::BackboneSpec& spec() const noexcept override { return spec_; }
  const runtime::GroupOptions& options() const noexcept override { return options_; }
  Result<uint32_t> admit(const model::ModelFiles&, const model::Progress&) override { return 0u; }
  void release(uint32_t) override {}
  const model::TenantModel* model(uint32_t slot) const noexcept override {
    return slot == free_slot ? nullptr : &models_.at(slot);
  }
  uint32_t num_tenants() const noexcept override { return 1; }
  uint64_t weight_bytes() const noexcept override { return 0; }
  uint64_t workspace_bytes() const noexcept override { return 0; }
  runtime::PassLimits pass_limits() const noexcept override { return limits_of_pass; }
  Result<std::unique_ptr<runtime::RequestExecutor>> make_executor(
      device::Stream& stream, const Clock& clock,
      const runtime::ExecutorOptions& options) override {
    return runtime::GroupExecutor::create(*this, stream, clock, options);
  }
  void begin(device::Stream& stream, runtime::Batch& batch,
             uint32_t flight_index) noexcept override {
    EXPECT_FALSE(running_[flight_index]);
    running_[flight_index] = true;
    on_begin();
    on_batch(batch.segments);
    ++batches;
    uint64_t tokens = 0;
    for (const runtime::BatchRequest& segment : batch.segments)
      tokens += segment.request->num_tokens;
    static_cast<TimedStream&>(stream).add(slower * (10'000'000 + 100'000 * tokens));
  }
  Status finish(runtime::Batch& batch, uint32_t flight_index, Status computed) noexcept override {
    EXPECT_TRUE(running_[flight_index]);
    running_[flight_index] = false;
    for (const runtime::BatchRequest& segment : batch.segments) {
      request::Request& request = *segment.request;
      if (!computed) {
        request.status = wire::StatusCode::kDeviceFailed;
        continue;
      }
      request.result = {static_cast<std::byte*>(std::calloc(1, 4)), 4};
      request.result_rows = 1;
    }
    return computed;
  }

 private:
  model::BackboneSpec spec_;
  runtime::GroupOptions options_;
  std::array<model::TenantModel, 256> models_;  // each slot has weights of its own
  std::array<bool, kMaxInFlight> running_{};
};

class ExecutorFixture : public ::testing::Test, protected runtime::CompletionSink {
 protected:
  ExecutorFixture() { make_executor(); }
  ~ExecutorFixture() override {
    for (request::Request& r : requests_) std::free(r.result.data);
  }
  void make_executor(const runtime::ExecutorOptions& options = {}) {
    executor_ = runtime::GroupExecutor::create(group_, stream_, clock_, options).value();
  }
  void complete(std::span<request::Request* const> requests) noexcept override {
    completed_.insert(completed_.end(), requests.begin(), requests.end());
  }
  void busy_until(uint64_t end_ns) noexcept override { busy_until_ns_ = end_ns; }
  void release_packets(std::span<request::Request* const> requests) noexcept override {
    for (request::Request* r : requests) {
      EXPECT_EQ(std::ranges::count(released_, r), 0) << "released twice";
      EXPECT_EQ(std::ranges::count(completed_, r), 0) << "released after completion";
      r->pieces = {};
      released_.push_back(r);
    }
  }

  request::Request& submit(uint32_t tokens, uint64_t budget_ns = 0, uint32_t slot = 0,
                           uint64_t slo_ns = 0) {
    request::Request& r = requests_.emplace_back();
    r.slot = slot;
    r.settings.slo_ns = slo_ns;
    r.complete_ns = clock_.now_ns();
    pieces_.push_back({ids_, tokens * 2});
    r.payload_kind = wire::PayloadKind::kTokensU16;
    r.payload_bytes = tokens * 2;
    r.pieces = {&pieces_.back(), 1};
    r.deadline_ns = budget_ns ? clock_.now_ns() + budget_ns : 0;
    executor_->submit(&r);
    return r;
  }
  runtime::BatchFigures step() {
    runtime::BatchFigures figures;
    executor_->step(*this, figures);
    return figures;
  }
  // Advances the clock to the executor's next step or the end of a batch.
  void pass_time() {
    uint64_t until_ns = stream_.next_end_ns();
    if (const uint64_t next_ns = executor_->next_step_ns()) until_ns = std::min(until_ns, next_ns);
    if (until_ns > clock_.now_ns()) clock_.advance_ns(until_ns - clock_.now_ns());
  }
  void run_all() {
    while (executor_->num_queued() > 0 || executor_->num_executing() > 0) {
      step();
      pass_time();
    }
  }

  alignas(4) std::byte ids_[4096] = {};
  VirtualClock clock_;
  TimedGroup group_;
  TimedStream stream_{clock_};
  std::unique_ptr<runtime::GroupExecutor> executor_;
  std::deque<request::Request> requests_;
  std::deque<request::Piece> pieces_;
  uint64_t busy_until_ns_ = 0;
  std::vector<request::Request*> completed_;
  std::vector<request::Request*> released_;  // requests whose packets were released
};

}  // namespace itif::testing
