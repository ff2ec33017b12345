// itif-bench concat: TCB's Figures 9 to 12 on this device. Requests arrive as a Poisson process,
// wait in a group's executor, and count if they are answered by their deadlines. Planners naive
// (the paper's TNB), turbo (TTB), concat (TCB) and packed, under das and fcfs.
//
// Lengths as in the paper: 3 to 100 tokens, mean 20, variance 20 or 100. With 20 as their standard
// deviation (variance 400), lengths of 100 occur, as the paper's figures suggest. A batch has 16
// rows of 100 tokens: a request per row with naive and turbo, as many as fit with concat and
// packed. The paper states no deadlines; here they are 1.3 to 6.7 times the longest batch, drawn
// uniformly. Rates are multiples of the answers/s of packed under overload. Three layers of
// BERT-base's size, one tenant.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <semaphore>
#include <thread>

#include "base/random.h"
#include "benches.h"
#include "make_model.h"
#include "runtime/cost/profiler.h"
#include "runtime/make_group.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"
#include "workload/model_folder.h"

namespace itif::bench {
namespace {

constexpr uint32_t kBatchRows = 16, kRowTokens = 100, kBatchTokens = kBatchRows * kRowTokens;
constexpr uint32_t kMinLength = 3, kMeanLength = 20;
constexpr uint32_t kMaxBatchRequests = kBatchTokens / kMinLength;
constexpr uint32_t kConcatLayers = 3;
constexpr uint32_t kMaxWaiting = 16'384;
constexpr double kVariances[] = {20, 100, 400};
constexpr const char* kConcatOnHost =
    "on a CPU, the time of a batch follows its rows. So concat saves the others' padding and no "
    "more. The paper's GPU is partly idle with 64 short rows, and concat fills it as well";
constexpr const char* kConcatSchedulers[] = {"das", "fcfs"};
constexpr double kRateFactors[] = {0.5, 1, 2};
constexpr double kPeakFactor = 4;  // of the overload that measures packed's peak

struct ConcatMode {
  const char* name;
  const char* planner;
  uint32_t max_requests;  // of a batch
};
constexpr ConcatMode kConcatModes[] = {{"naive", "naive", kBatchRows},
                                       {"turbo", "turbo", kBatchRows},
                                       {"concat", "concat:row_tokens=100", kMaxBatchRequests},
                                       {"packed", "packed", kMaxBatchRequests}};
constexpr size_t kConcat = 2, kPacked = 3;  // their indices

// A group, its stream, and what each run's executor needs.
struct ConcatGroup {
  std::unique_ptr<std::counting_semaphore<>> bell;  // released by the stream's thread
  std::unique_ptr<runtime::Group> group;
  std::unique_ptr<device::Stream> stream;
  std::shared_ptr<const plan::CostTables> tables;
  device::DeviceInfo device;

  Result<std::unique_ptr<runtime::RequestExecutor>> executor(const ConcatMode& mode,
                                                             const char* scheduler) const {
    runtime::ExecutorOptions options;
    options.limits = {.max_tokens = kBatchTokens, .max_requests = mode.max_requests};
    options.queue = {
        .max_requests = kMaxWaiting, .max_tenant_requests = kMaxWaiting, .max_slots = 1};
    options.scheduler = scheduler;
    options.max_wait_ns = 0;  // only deadlines limit the wait, as in the paper
    ITIF_ASSIGN(auto made, group->make_executor(*stream, kSystemClock, options));
    ITIF_TRY(made->set_planner(mode.planner, device, tables));
    return made;
  }
};

Result<ConcatGroup> make_concat_group(device::Device& device, const model::BackboneSpec& spec,
                                      const std::filesystem::path& model) {
  ConcatGroup made{.bell = std::make_unique<std::counting_semaphore<>>(0),
                   .group = {},
                   .stream = {},
                   .tables = {},
                   .device = device.info()};
  ITIF_ASSIGN(made.group, runtime::make_group(device, spec,
                                              {.max_tokens = kBatchTokens,
                                               .max_requests = kMaxBatchRequests,
                                               .max_tenants = 1}));
  ITIF_TRY(made.group->admit(model.string(), nullptr));
  ITIF_ASSIGN(made.stream,
              device.make_stream(made.group->stream_limits(),
                                 {.is_async = true,
                                  .clock = &kSystemClock,
                                  .on_done = [bell = made.bell.get()] { bell->release(); }}));
  ITIF_ASSIGN(const auto profile_stream, device.make_stream(made.group->stream_limits()));
  runtime::Profiler profiler(device, kSystemClock, made.group->gemms(), "concat",
                             runtime::profile_options(*made.group));
  while (profiler.step(*profile_stream)) {
  }
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  made.tables = std::make_shared<const plan::CostTables>(std::move(tables));
  return made;
}

// Requests of random token ids.
class ConcatLoad final : public runtime::CompletionSink {
 public:
  ConcatLoad(const ConcatGroup& group, double variance, uint32_t vocab)
      : group_(group), variance_(variance) {
    Random random(7);
    ids_.resize(1 << 16);
    for (uint32_t& id : ids_) id = static_cast<uint32_t>(random.below(vocab));
  }

  struct Figures {
    uint64_t in_time = 0, failed = 0;
    double utility = 0;  // Σ 1 / tokens over the answers in time (TCB, equation 9)
    double seconds = 0;
    double rate() const { return static_cast<double>(in_time) / seconds; }
  };

  // Submits requests at `rate` per second. Those that arrive after the warm-up count. The same
  // requests arrive in every run with the same rate.
  Figures run(runtime::RequestExecutor& executor, double rate, uint64_t longest_batch_ns,
              uint64_t warm_up_ns, uint64_t measured_ns) {
    Random random(11);
    figures_ = {.seconds = static_cast<double>(measured_ns) * 1e-9};
    const uint64_t start_ns = kSystemClock.now_ns();
    count_from_ns_ = start_ns + warm_up_ns;
    const uint64_t end_ns = count_from_ns_ + measured_ns;
    const auto gap_ns = [&] { return static_cast<uint64_t>(random.exponential() / rate * 1e9); };
    uint64_t next_ns = start_ns + gap_ns();
    while (next_ns < end_ns) {
      const uint64_t now_ns = kSystemClock.now_ns();
      for (uint32_t i = 0; next_ns <= now_ns && i < executor.kMaxIntake; ++i) {
        const double budget = 1.3 + 5.4 * random.uniform();
        submit(executor, draw_length(random), next_ns,
               next_ns + static_cast<uint64_t>(budget * static_cast<double>(longest_batch_ns)));
        next_ns += gap_ns();
      }
      step(executor, next_ns);
    }
    while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
    return figures_;
  }

  // Runs a batch of the longest requests, then one of each length. Returns the first one's time,
  // and the results of the others in `results`.
  uint64_t run_alone(runtime::RequestExecutor& executor, std::vector<std::vector<float>>& results) {
    results_ = nullptr;
    uint64_t longest_ns = UINT64_MAX;
    for (int turn = 0; turn < 3; ++turn) {
      const uint64_t start_ns = kSystemClock.now_ns();
      for (uint32_t i = 0; i < kBatchRows; ++i) submit(executor, kRowTokens, start_ns, 0);
      while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
      longest_ns = std::min(longest_ns, kSystemClock.now_ns() - start_ns);
    }
    results.assign(kRowTokens + 1, {});
    results_ = &results;
    for (uint32_t tokens = kMinLength; tokens <= kRowTokens; ++tokens)
      submit(executor, tokens, kSystemClock.now_ns(), 0);
    while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
    results_ = nullptr;
    return longest_ns;
  }

  void complete(std::span<request::Request* const> completed) noexcept override {
    const uint64_t now_ns = kSystemClock.now_ns();
    for (request::Request* request : completed) {
      using enum wire::StatusCode;
      const bool counts = request->arrival_ns >= count_from_ns_;
      if (request->status == kOk) {
        if (counts && now_ns <= request->deadline_ns) {
          ++figures_.in_time;
          figures_.utility += 1.0 / request->num_tokens;
        }
        if (results_ != nullptr) keep(*request);
      } else if (request->status != kDeadlineQueue && request->status != kDeadlineLaunch &&
                 request->status != kOverloaded) {
        ++figures_.failed;
      }
      std::free(request->result.data);
      free_.push_back(static_cast<size_t>(request->request_id));
    }
  }

 private:
  static constexpr uint64_t kLongestSleepNs = 1'000'000;
  static constexpr std::chrono::nanoseconds kBetweenAsking{20'000};

  struct InFlight {
    request::Request request;
    request::Piece piece;
  };

  size_t num_in_flight() const { return requests_.size() - free_.size(); }
  uint32_t draw_length(Random& random) const {
    for (;;) {  // values outside are drawn again
      const double length = std::round(kMeanLength + std::sqrt(variance_) * random.normal());
      if (length >= kMinLength && length <= kRowTokens) return static_cast<uint32_t>(length);
    }
  }
  void submit(runtime::RequestExecutor& executor, uint32_t tokens, uint64_t arrival_ns,
              uint64_t deadline_ns) {
    if (free_.empty()) {
      free_.push_back(requests_.size());
      requests_.emplace_back();
    }
    const size_t at = free_.back();
    free_.pop_back();
    InFlight& one = requests_[at];
    // The payload is a part of ids_, at an offset that depends on its length.
    one.piece = {reinterpret_cast<const std::byte*>(ids_.data() + size_t{tokens} * kRowTokens),
                 static_cast<uint32_t>(tokens * sizeof(uint32_t))};
    one.request = {};
    one.request.request_id = at;
    one.request.payload_kind = wire::PayloadKind::kTokensU32;
    one.request.payload_bytes = one.piece.bytes;
    one.request.pieces = {&one.piece, 1};
    one.request.arrival_ns = one.request.complete_ns = arrival_ns;
    one.request.deadline_ns = deadline_ns;
    executor.submit(&one.request);
  }
  // One turn of a group's thread. Sleeps until something is due.
  void step(runtime::RequestExecutor& executor, uint64_t next_arrival_ns) {
    runtime::BatchFigures batch;
    const size_t completed = executor.step(*this, batch);
    if (completed > 0 || batch.num_tokens > 0 || executor.has_results()) return;
    uint64_t wake_ns = next_arrival_ns;
    if (const uint64_t step_ns = executor.next_step_ns(); step_ns != 0)
      wake_ns = std::min(wake_ns, step_ns);
    const uint64_t now_ns = kSystemClock.now_ns();
    if (wake_ns <= now_ns) return;
    const std::chrono::nanoseconds sleep(std::min(wake_ns - now_ns, kLongestSleepNs));
    // A stream without a callback must be polled.
    (void)group_.bell->try_acquire_for(
        group_.stream->calls_on_done() ? sleep : std::min(sleep, kBetweenAsking));
  }
  void keep(const request::Request& request) {
    std::vector<float>& values = (*results_)[request.num_tokens];
    values.resize(request.result.bytes / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), request.result.data, request.result.bytes);
  }

  const ConcatGroup& group_;
  const double variance_;
  std::vector<uint32_t> ids_;
  std::deque<InFlight> requests_;
  std::vector<size_t> free_;  // indices of requests_
  Figures figures_;
  uint64_t count_from_ns_ = 0;
  std::vector<std::vector<float>>* results_ = nullptr;  // by length
};

// Checks that every planner gives the same answers. Returns the time of naive's longest batch.
Result<uint64_t> check_answers(const ConcatGroup& group, uint32_t vocab) {
  ConcatLoad load(group, kVariances[0], vocab);
  uint64_t longest_ns = 0;
  std::vector<std::vector<float>> expected;
  for (const ConcatMode& mode : kConcatModes) {
    ITIF_ASSIGN(const auto executor, group.executor(mode, "fcfs"));
    std::vector<std::vector<float>> results;
    const uint64_t ns = load.run_alone(*executor, results);
    if (expected.empty()) {
      longest_ns = ns;
      expected = results;
    }
    for (uint32_t tokens = kMinLength; tokens <= kRowTokens; ++tokens) {
      const std::vector<float>&got = results[tokens], &want = expected[tokens];
      const double similarity = got.empty() || got.size() != want.size()
                                    ? 0
                                    : cosine(got.data(), want.data(), got.size());
      if (!(similarity >= 0.999))
        return fail(Code::kInternal, fmt::format("{}: a request of {} tokens differs from naive's "
                                                 "result, cosine {}",
                                                 mode.name, tokens, similarity));
    }
  }
  return longest_ns;
}

struct ConcatTimes {
  uint64_t longest_batch_ns, warm_up_ns, measured_ns;
  uint32_t repeats;  // of the highest rate
};

Status compare_concat(const ConcatGroup& group, const std::string& name, const char* scheduler,
                      ConcatLoad& load, const ConcatTimes& times, Report& report) {
  const auto run = [&](const ConcatMode& mode, double rate) -> Result<ConcatLoad::Figures> {
    ITIF_ASSIGN(const auto executor, group.executor(mode, scheduler));
    const ConcatLoad::Figures figures =
        load.run(*executor, rate, times.longest_batch_ns, times.warm_up_ns, times.measured_ns);
    if (figures.failed > 0)
      return fail(Code::kInternal,
                  fmt::format("{}, {}: {} requests failed", name, mode.name, figures.failed));
    return figures;
  };
  // A batch of packed has no more tokens than naive's longest, and is no slower.
  const double estimate =
      kBatchTokens / (static_cast<double>(times.longest_batch_ns) * 1e-9) / kMeanLength;
  ITIF_ASSIGN(const ConcatLoad::Figures peak, run(kConcatModes[kPacked], kPeakFactor * estimate));
  for (const double factor : kRateFactors) {
    const bool is_last = factor == kRateFactors[std::size(kRateFactors) - 1];
    const double rate = factor * peak.rate();
    Samples answers[std::size(kConcatModes)], utility[std::size(kConcatModes)];
    for (uint32_t i = 0; i < (is_last ? times.repeats : 1); ++i)
      for (size_t m = 0; m < std::size(kConcatModes); ++m) {
        ITIF_ASSIGN(const ConcatLoad::Figures figures, run(kConcatModes[m], rate));
        answers[m].add(figures.rate());
        utility[m].add(figures.utility / figures.seconds);
      }
    const std::string row = fmt::format("{}, {:g}x", name, factor);
    for (size_t m = 0; m < std::size(kConcatModes); ++m) {
      report.add({.name = row,
                  .mode = kConcatModes[m].name,
                  .value = answers[m].median(),
                  .unit = "in time/s",
                  .spread = answers[m].spread(),
                  .limit = rate,
                  .ratio = answers[m].median() / rate});
      report.add({.name = row,
                  .mode = kConcatModes[m].name,
                  .value = utility[m].median(),
                  .unit = "utility/s",
                  .spread = utility[m].spread()});
    }
    if (!is_last) continue;
    for (const auto& [over, under] :
         {std::pair{kConcat, size_t{0}}, {kConcat, size_t{1}}, {kPacked, kConcat}}) {
      const Samples ratio = paired_ratios(answers[over], answers[under]);
      report.add({.name = row,
                  .mode = fmt::format("{} / {}", kConcatModes[over].name, kConcatModes[under].name),
                  .value = ratio.median(),
                  .unit = "times",
                  .spread = ratio.spread()});
    }
  }
  return {};
}

Status run_concat(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  const std::filesystem::path& model, const model::BackboneSpec& spec,
                  Report& report) {
  ITIF_ASSIGN(const ConcatGroup group, make_concat_group(device, spec, model));
  ITIF_ASSIGN(const uint64_t longest_ns, check_answers(group, spec.vocab));
  report.note(
      fmt::format("{}: the longest batch takes {:.1f} ms; deadlines are 1.3 to 6.7 times "
                  "that",
                  dtype, static_cast<double>(longest_ns) * 1e-6));
  const ConcatTimes times{.longest_batch_ns = longest_ns,
                          .warm_up_ns = options.quick ? 100'000'000u : 8 * longest_ns,
                          .measured_ns = options.quick ? 200'000'000u : 3'000'000'000u,
                          .repeats = options.quick ? 1u : 3u};
  for (const double variance : kVariances) {
    ConcatLoad load(group, variance, spec.vocab);
    for (const char* scheduler : kConcatSchedulers) {
      const std::string name = fmt::format("variance {:g}, {}, {}", variance, scheduler, dtype);
      if (!options.wants(name)) continue;
      ITIF_TRY(compare_concat(group, name, scheduler, load, times, report));
      if (options.quick) return {};
    }
  }
  return {};
}

}  // namespace

Status bench_concat(const BenchOptions& options, Report& report) {
  ITIF_ASSIGN(const ModelFolder folder, ModelFolder::make());
  mkmodel::ModelOptions model;
  model.spec = bert_base();
  model.spec.layers = options.quick ? 1 : kConcatLayers;
  model.head = mkmodel::HeadChoice::kEmbedding;
  const std::filesystem::path path = folder.path() / "model";
  ITIF_TRY(mkmodel::make_model(model, path.string()));
  report.note(
      "the paper has, for requests/s at the highest rate: variance 20, das: concat / naive 2.22, "
      "concat / turbo 1.48; variance 20, fcfs: 3.33 and 1.52; variance 100, fcfs: concat / turbo "
      "1.72");
  return on_each_device(options, report, [&](device::Device& device, const std::string& dtype) {
    if (device.info().kind == "host") report.note(kConcatOnHost);
    return run_concat(options, device, dtype, path, model.spec, report);
  });
}

}  // namespace itif::bench
