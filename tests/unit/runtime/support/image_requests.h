// Image requests to an executor, without packets. Payloads are cut into pieces like datagrams,
// which lie in memory in random order.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "runtime/batch/executor.h"
#include "wire/payload.h"

namespace itif::testing {

inline std::vector<std::byte> image_payload(wire::ImagePrefix prefix,
                                            const std::vector<std::byte>& pixels) {
  std::vector<std::byte> payload(sizeof prefix);
  std::memcpy(payload.data(), &prefix, sizeof prefix);
  payload.insert(payload.end(), pixels.begin(), pixels.end());
  return payload;
}

class ImageRequests final : public runtime::CompletionSink {
 public:
  ImageRequests(device::Device& device, runtime::EncoderGroup& group)
      : stream_(device.make_stream(group.stream_limits()).value()) {
    runtime::ExecutorOptions options;
    options.limits = {.max_tokens = group.options().max_tokens,
                      .max_requests = group.options().max_requests};
    options.max_wait_ns = 0;
    executor_ = runtime::GroupExecutor::create(group, *stream_, clock_, options).value();
  }
  ~ImageRequests() override {
    for (const request::Request& r : requests_) std::free(r.result.data);
  }

  request::Request& submit(uint32_t slot, wire::PayloadKind kind,
                           const std::vector<std::byte>& payload,
                           wire::ResultKind result = wire::ResultKind::kDefault,
                           uint32_t fragment_bytes = 1384) {
    request::Request& r = requests_.emplace_back();
    r.slot = slot;
    r.payload_kind = kind;
    r.result_kind = result;
    r.payload_bytes = static_cast<uint32_t>(payload.size());
    const size_t count = (payload.size() + fragment_bytes - 1) / fragment_bytes;
    std::vector<request::Piece>& pieces = pieces_.emplace_back(count);
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) {
      order[i] = i;
      std::swap(order[i], order[random_.below(i + 1)]);
    }
    // Each piece has its own allocation, so that a sanitizer finds reads past its end.
    for (const size_t i : order) {
      const size_t first = i * fragment_bytes;
      const size_t bytes = std::min<size_t>(fragment_bytes, payload.size() - first);
      auto& memory = memory_.emplace_back(static_cast<std::byte*>(std::malloc(bytes)), std::free);
      std::memcpy(memory.get(), payload.data() + first, bytes);
      pieces[i] = {memory.get(), static_cast<uint32_t>(bytes)};
    }
    r.pieces = pieces;
    executor_->submit(&r);
    return r;
  }
  // Runs until no request is queued or executing.
  void run() {
    do {
      runtime::BatchFigures figures;
      executor_->step(*this, figures);
      if (figures.num_requests > largest_batch) largest_batch = figures.num_requests;
    } while (executor_->num_queued() + executor_->num_executing() > 0);
  }
  void complete(std::span<request::Request* const>) noexcept override {}

  static std::vector<float> floats(const request::Request& r) {
    std::vector<float> values(r.result.bytes / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), r.result.data, r.result.bytes);
    return values;
  }

  uint32_t largest_batch = 0;

 private:
  SystemClock clock_;
  Random random_{5};
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<runtime::GroupExecutor> executor_;
  std::deque<request::Request> requests_;
  std::deque<std::vector<request::Piece>> pieces_;
  std::deque<std::unique_ptr<std::byte, void (*)(void*)>> memory_;
};

}  // namespace itif::testing
