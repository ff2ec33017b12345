// Fixture: a generating group and its executor, for small MarianMT models. The expected tokens come
// from transformers' generate().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backbone/open_model.h"
#include "runtime/generate/generation_executor.h"
#include "runtime/generate/make_decoder_group.h"
#include "support/test_data.h"
#include "support/tested_device.h"

namespace itif::runtime {

struct Case {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> tokens;
};

inline std::string directory_of(const std::string& name) {
  return testing::test_data("generation/" + name);
}

inline std::vector<Case> cases_of(const std::string& name) {
  std::ifstream file(directory_of(name) + "/golden.json");
  std::vector<Case> cases;
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const auto& one : golden["cases"])
    cases.push_back(
        {one["ids"].get<std::vector<uint32_t>>(), one["tokens"].get<std::vector<uint32_t>>()});
  EXPECT_GE(cases.size(), 10u);
  testing::keep_few(cases);
  return cases;
}

inline constexpr const char* kModels[] = {"beams-4", "beams-3-smaller", "greedy", "long-never",
                                          "beams-2-gelu"};

// The clock of an asynchronous stream. The stream's thread reads it before it runs anything;
// `holds` blocks it there.
class HoldingClock final : public Clock {
 public:
  std::atomic<bool> holds{false};
  uint64_t now_ns() const noexcept override {
    holds.wait(true);
    return 0;
  }
  uint64_t unix_ns() const noexcept override { return 0; }
  void release() {
    holds = false;
    holds.notify_all();
  }
};

class Generation : public ::testing::Test, protected CompletionSink {
 protected:
  ~Generation() override {
    for (request::Request& r : requests_) std::free(r.result.data);
  }

  void open(const std::string& name, const DecoderGroupOptions& decoder = {},
            std::unique_ptr<device::Device> device = nullptr) {
    executor_.reset();
    stream_.reset();
    group_.reset();
    device_ = std::move(device);
    if (!device_) device_ = testing::open_tested_device("f32").value();
    constexpr uint32_t kMaxTokens = 256;
    const auto spec = backbone::read_backbone_spec(directory_of(name));
    ASSERT_TRUE(spec) << spec.error().message;
    auto group = make_decoder_group(*device_, *spec, {.max_tokens = kMaxTokens}, decoder);
    ASSERT_TRUE(group) << group.error().message;
    group_ = std::move(*group);
    admit(name);
    stream_ =
        device_
            ->make_stream(group_->stream_limits(), {.is_async = is_async_, .clock = &stream_clock_})
            .value();
    ExecutorOptions executor;
    executor.limits.max_tokens = kMaxTokens;
    executor.generation = generation_;
    executor_ = GenerationExecutor::create(*group_, *stream_, clock_, executor).value();
  }
  uint32_t admit(const std::string& name) {
    const auto slot = group_->admit(directory_of(name), nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot.value_or(0);
  }

  // Cuts the payload into pieces of at most `piece_bytes`.
  request::Request& submit(const std::vector<uint32_t>& ids, uint32_t slot = 0,
                           uint32_t piece_bytes = 1384) {
    const bool wide = requests_.size() % 2 == 0;
    std::vector<std::byte>& payload = payloads_.emplace_back(ids.size() * (wide ? 4 : 2));
    for (size_t i = 0; i < ids.size(); ++i)
      std::memcpy(&payload[i * (wide ? 4 : 2)], &ids[i], wide ? 4 : 2);
    auto& pieces = pieces_.emplace_back();
    for (size_t at = 0; at < payload.size(); at += piece_bytes)
      pieces.push_back({payload.data() + at,
                        static_cast<uint32_t>(std::min<size_t>(piece_bytes, payload.size() - at))});
    request::Request& r = requests_.emplace_back();
    r.slot = slot;
    r.payload_kind = wide ? wire::PayloadKind::kTokensU32 : wire::PayloadKind::kTokensU16;
    r.payload_bytes = static_cast<uint32_t>(payload.size());
    r.pieces = pieces;
    r.deadline_ns = deadline_ns_;
    executor_->submit(&r);
    return r;
  }
  // Returns when a step has ended or requests were refused. On an asynchronous stream the next step
  // may already run.
  BatchFigures step() {
    BatchFigures figures;
    while (executor_->step(*this, figures) == 0 && figures.num_tokens == 0 &&
           executor_->num_executing() > 0)
      std::this_thread::yield();
    return figures;
  }
  void run_all() {
    for (int i = 0; i < 100'000 && completed_ < requests_.size(); ++i) step();
    ASSERT_EQ(completed_, requests_.size());
    EXPECT_EQ(executor_->num_executing(), 0u);
    EXPECT_EQ(executor_->num_queued(), 0u);
    EXPECT_EQ(executor_->blocks().num_used(), 0u);
    EXPECT_EQ(executor_->blocks().num_reserved(), 0u);
  }
  void complete(std::span<request::Request* const> requests) noexcept override {
    completed_ += requests.size();
    for (const request::Request* r : requests) order_.push_back(r);
  }
  // Overwrites the packets, so that a later read shows in the results.
  void release_packets(std::span<request::Request* const> requests) noexcept override {
    for (request::Request* r : requests) {
      EXPECT_TRUE(released_.insert(r).second) << "released twice";
      EXPECT_EQ(std::ranges::count(order_, r), 0) << "released after completion";
      for (const request::Piece& piece : r->pieces)
        std::memset(const_cast<std::byte*>(piece.data), 0xff, piece.bytes);
      r->pieces = {};
    }
  }
  static void expect_tokens(const request::Request& r, const std::vector<uint32_t>& expected) {
    ASSERT_EQ(r.status, wire::StatusCode::kOk) << r.detail;
    EXPECT_EQ(r.result_kind_out, wire::ResultKind::kTokens);
    EXPECT_EQ(r.result_rows, expected.size());
    EXPECT_EQ(tokens_of(r), expected);
  }
  static std::vector<uint32_t> tokens_of(const request::Request& r) {
    std::vector<uint32_t> tokens(r.result.bytes / 4);
    std::memcpy(tokens.data(), r.result.data, r.result.bytes);
    return tokens;
  }

  VirtualClock clock_;
  HoldingClock stream_clock_;
  bool is_async_ = false;
  GenerationOptions generation_;  // of the next open()
  uint64_t deadline_ns_ = 0;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<DecoderGroup> group_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<GenerationExecutor> executor_;
  std::deque<std::vector<std::byte>> payloads_;
  std::deque<std::vector<request::Piece>> pieces_;
  std::deque<request::Request> requests_;
  std::vector<const request::Request*> order_;
  std::set<const request::Request*> released_;  // requests whose packets were released
  size_t completed_ = 0;
};

// Runs a test on a synchronous stream (false) and on an asynchronous one (true).
class GenerationBothWays : public Generation, public ::testing::WithParamInterface<bool> {
 protected:
  GenerationBothWays() { is_async_ = GetParam(); }
};

}  // namespace itif::runtime
