// Requests that arrive as a Poisson process at a group's executor and count if they are answered by
// their deadlines: the load of itif-bench concat. Lengths are normal, from kMinLength to kRowTokens
// tokens, with mean kMeanLength. Deadlines are 1.3 to 6.7 times the longest batch, drawn uniformly.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/device.h"
#include "model/spec.h"
#include "plan/cost_tables.h"
#include "runtime/completion.h"
#include "runtime/group.h"

namespace itif::bench {

constexpr uint32_t kBatchRows = 16, kRowTokens = 100, kBatchTokens = kBatchRows * kRowTokens;
constexpr uint32_t kMinLength = 3, kMeanLength = 20;
constexpr uint32_t kMaxBatchRequests = kBatchTokens / kMinLength;
constexpr uint32_t kMostBatchTokens = 4 * kBatchTokens;  // of any mode

struct ConcatMode {
  std::string name;
  std::string planner;
  uint32_t max_requests;  // of a batch
  uint32_t max_tokens = kBatchTokens;
};

// A group, its stream, and what each run's executor needs.
struct ConcatGroup {
  std::unique_ptr<std::counting_semaphore<>> bell;  // released by the stream's thread
  std::unique_ptr<runtime::Group> group;
  std::unique_ptr<device::Stream> stream;
  std::shared_ptr<const plan::CostTables> tables;
  device::DeviceInfo device;

  Result<std::unique_ptr<runtime::RequestExecutor>> executor(const ConcatMode& mode,
                                                             const char* scheduler) const;
};

// One tenant, whose model is the directory `model`.
Result<ConcatGroup> make_concat_group(device::Device& device, const model::BackboneSpec& spec,
                                      const std::filesystem::path& model);

// Requests of random token ids.
class ConcatLoad final : public runtime::CompletionSink {
 public:
  struct Figures {
    uint64_t in_time = 0, failed = 0;
    double utility = 0;  // Σ 1 / tokens over the answers in time (TCB, equation 9)
    double seconds = 0;
    double rate() const { return static_cast<double>(in_time) / seconds; }
  };

  // `group` outlives the load. `variance`: of the lengths.
  ConcatLoad(const ConcatGroup& group, double variance, uint32_t vocab);
  // Submits requests at `rate` per second. Those that arrive after the warm-up count. The same
  // requests arrive in every run with the same rate.
  Figures run(runtime::RequestExecutor& executor, double rate, uint64_t longest_batch_ns,
              uint64_t warm_up_ns, uint64_t measured_ns);
  // Runs a batch of the longest requests, then one of each length. Returns the first one's time,
  // and the results of the others in `results`, by length.
  uint64_t run_alone(runtime::RequestExecutor& executor, std::vector<std::vector<float>>& results);
  void complete(std::span<request::Request* const> completed) noexcept override;

 private:
  struct InFlight {
    request::Request request;
    request::Piece piece;
  };

  size_t num_in_flight() const { return requests_.size() - free_.size(); }
  uint32_t draw_length(Random& random) const;
  void submit(runtime::RequestExecutor& executor, uint32_t tokens, uint64_t arrival_ns,
              uint64_t deadline_ns);
  void step(runtime::RequestExecutor& executor, uint64_t next_arrival_ns);
  void keep(const request::Request& request);

  const ConcatGroup& group_;
  const double variance_;
  std::vector<uint32_t> ids_;
  std::deque<InFlight> requests_;
  std::vector<size_t> free_;  // indices of requests_
  Figures figures_;
  uint64_t count_from_ns_ = 0;
  std::vector<std::vector<float>>* results_ = nullptr;  // by length
};

}  // namespace itif::bench
