// itif-bench overlap: tokens/s of texts through a group's executor, with batches one after another
// and with the next batch prepared while one computes. The limit is the forward passes alone.
//
// In groups that generate, only receiving requests and sending answers overlap with a step. The
// preparing thread slows the computing threads if these use all CPUs; therefore the bench also runs
// with one thread fewer than CPUs. The number of requests is 1.5 batches; an answered request is
// submitted again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <semaphore>
#include <thread>

#include "backbone/family.h"
#include "base/random.h"
#include "benches.h"
#include "make_model.h"
#include "runtime/make_group.h"
#include "workload/devices.h"
#include "workload/model_folder.h"

namespace itif::bench {
namespace {

constexpr uint32_t kOverlapTenants = 2;
constexpr uint32_t kMaxTokens = 1024;
constexpr uint32_t kWords = 28;  // about 40 tokens
constexpr uint32_t kOverlapRequests = 36;
constexpr std::chrono::nanoseconds kBetweenAsking(10'000);
constexpr const char* kPresets[] = {"bert-tiny", "minilm-l6", "marian-tiny"};

std::string text_of(uint32_t seed) {
  Random random(seed);
  std::string text;
  for (uint32_t word = 0; word < kWords; ++word) {
    if (word > 0) text += ' ';
    for (uint64_t i = 0; i < 3 + random.below(5); ++i)
      text += static_cast<char>('a' + random.below(26));
  }
  return text;
}

// Submits each request again as soon as it is answered.
class ClosedLoop final : public runtime::CompletionSink {
 public:
  explicit ClosedLoop(runtime::RequestExecutor& executor) : executor_(executor) {
    for (uint32_t i = 0; i < kOverlapRequests; ++i) texts_.push_back(text_of(i));
    for (uint32_t i = 0; i < kOverlapRequests; ++i) {
      pieces_.push_back({reinterpret_cast<const std::byte*>(texts_[i].data()),
                         static_cast<uint32_t>(texts_[i].size())});
      requests_.push_back(std::make_unique<request::Request>());
    }
    first_answers_.resize(kOverlapRequests);
    for (uint32_t i = 0; i < kOverlapRequests; ++i) submit(i);
  }
  ~ClosedLoop() override {
    for (auto& request : requests_) std::free(request->result.data);
  }

  void complete(std::span<request::Request* const> answered) noexcept override {
    for (request::Request* request : answered) {
      if (request->status != wire::StatusCode::kOk) num_failed_++;
      const auto at = static_cast<uint32_t>(request->request_id);
      if (first_answers_[at].empty() && request->result.bytes > 0) {
        first_answers_[at].assign(request->result.data,
                                  request->result.data + request->result.bytes);
      }
      std::free(request->result.data);
      request->result = {};
      again_.push_back(at);
    }
  }
  // Submits answered requests again. Called once per step, as a group's thread drains its ring.
  void submit_again() {
    for (const uint32_t at : again_) submit(at);
    again_.clear();
  }

  bool all_answered() const {
    return std::ranges::none_of(first_answers_, [](const auto& answer) { return answer.empty(); });
  }
  uint64_t num_failed() const { return num_failed_; }
  const std::vector<std::vector<std::byte>>& first_answers() const { return first_answers_; }

 private:
  void submit(uint32_t at) {
    request::Request& request = *requests_[at];
    request.request_id = at;
    request.slot = at % kOverlapTenants;
    request.payload_kind = wire::PayloadKind::kText;
    request.payload_bytes = pieces_[at].bytes;
    request.pieces = {&pieces_[at], 1};
    executor_.submit(&request);
  }

  runtime::RequestExecutor& executor_;
  std::vector<std::string> texts_;
  std::vector<request::Piece> pieces_;
  std::vector<std::unique_ptr<request::Request>> requests_;
  std::vector<std::vector<std::byte>> first_answers_;
  std::vector<uint32_t> again_;
  uint64_t num_failed_ = 0;
};

// A group's executor and its thread's loop.
struct Serving {
  std::unique_ptr<std::counting_semaphore<>> bell;  // released by the stream's thread
  Result<std::unique_ptr<device::Stream>> stream;
  std::unique_ptr<runtime::RequestExecutor> executor;
  std::unique_ptr<ClosedLoop> loop;
  // Totals of finished batches. Unfinished sequences do not count.
  uint64_t num_tokens = 0, execute_ns = 0;

  // Serves for `ns` nanoseconds; returns nanoseconds per token.
  double run(uint64_t ns) {
    runtime::BatchFigures figures;
    const uint64_t start_ns = kSystemClock.now_ns(), before = num_tokens;
    uint64_t now_ns = start_ns;
    for (; now_ns - start_ns < ns; now_ns = kSystemClock.now_ns()) {
      const size_t completed = executor->step(*loop, figures);
      count(figures);
      loop->submit_again();
      if (completed > 0 || figures.num_tokens > 0 || executor->num_executing() == 0) continue;
      const uint64_t next_ns = executor->next_step_ns();
      const auto sleep = std::chrono::nanoseconds(
          next_ns == 0 ? 1'000'000 : next_ns - std::min(next_ns, kSystemClock.now_ns()));
      if (executor->has_results() || sleep.count() <= 0) continue;
      // A stream without a callback must be polled.
      (void)bell->try_acquire_for((*stream)->calls_on_done() ? sleep
                                                             : std::min(sleep, kBetweenAsking));
    }
    do {
      executor->finish(*loop, figures);
      count(figures);
    } while (figures.num_tokens > 0);
    loop->submit_again();
    return static_cast<double>(kSystemClock.now_ns() - start_ns) /
           static_cast<double>(num_tokens - before);
  }
  void count(const runtime::BatchFigures& figures) {
    num_tokens += figures.num_tokens;
    execute_ns += figures.execute_ns;
  }
};

Result<std::unique_ptr<Serving>> serve(runtime::Group& group, device::Device& device,
                                       bool overlaps) {
  auto serving = std::make_unique<Serving>();
  serving->bell = std::make_unique<std::counting_semaphore<>>(0);
  ITIF_ASSIGN(serving->stream,
              device.make_stream(group.stream_limits(),
                                 {.is_async = overlaps,
                                  .clock = &kSystemClock,
                                  .on_done = [bell = serving->bell.get()] { bell->release(); }}));
  runtime::ExecutorOptions options;
  options.limits = {.max_tokens = kMaxTokens, .max_requests = kOverlapRequests};
  options.max_wait_ns = 0;  // no limit: every request must be answered, however slow the device
  ITIF_ASSIGN(serving->executor, group.make_executor(**serving->stream, kSystemClock, options));
  serving->loop = std::make_unique<ClosedLoop>(*serving->executor);
  return serving;
}

// The largest difference between two answers to the same request, relative to the largest value.
double difference(const ClosedLoop& a, const ClosedLoop& b) {
  const auto values = [](const std::vector<std::byte>& answer) {
    std::vector<float> floats(answer.size() / sizeof(float));
    std::memcpy(floats.data(), answer.data(), floats.size() * sizeof(float));
    return floats;
  };
  double most = 0, largest = 0;
  for (uint32_t i = 0; i < kOverlapRequests; ++i) {
    const auto x = values(a.first_answers()[i]), y = values(b.first_answers()[i]);
    if (x.empty() || x.size() != y.size()) return INFINITY;
    for (size_t j = 0; j < x.size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(x[j])));
      most = std::max(most, std::abs(static_cast<double>(x[j]) - y[j]));
    }
  }
  return most / largest;
}

// Share of requests whose answers have different tokens.
double share_of_others(const ClosedLoop& a, const ClosedLoop& b) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < kOverlapRequests; ++i)
    others += a.first_answers()[i] != b.first_answers()[i];
  return static_cast<double>(others) / kOverlapRequests;
}

// Tolerates some differing tokens in bf16: other rows of a batch change the order of sums, which
// may decide between two tokens with close scores.
Status check_same(bool generates, DType type, const ClosedLoop& a, const ClosedLoop& b) {
  if (!generates) {
    const double seen = difference(a, b);
    if (seen <= (type == DType::kF32 ? 1e-4 : 0.05)) return {};
    return fail(Code::kInternal, fmt::format("answers differ by {} of the largest value", seen));
  }
  const double others = share_of_others(a, b);
  if (others <= (type == DType::kF32 ? 0 : 0.25)) return {};
  return fail(Code::kInternal, fmt::format("{:.0f} % of the answers differ", 100 * others));
}

Status run_preset(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  const backbone::Preset& preset, const ModelFolder& models, Report& report) {
  const bool is_gpu = device.info().kind == "cuda";
  const std::string name =
      is_gpu ? fmt::format("{}, {}", preset.name, dtype)
             : fmt::format("{}, {} of {} CPUs compute, {}", preset.name, device.info().num_threads,
                           std::thread::hardware_concurrency(), dtype);
  if (!options.wants_any({name, std::string(preset.name)})) return {};
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(preset.spec.family));
  const bool generates = family->make_decoder != nullptr;
  ITIF_ASSIGN(const auto group,
              runtime::make_group(device, preset.spec,
                                  {.max_tokens = kMaxTokens, .max_tenants = kOverlapTenants}));
  for (uint32_t tenant = 0; tenant < kOverlapTenants; ++tenant) {
    const std::string directory =
        (models.path() / fmt::format("{}-{}", preset.name, tenant)).string();
    mkmodel::ModelOptions model;
    model.spec = preset.spec;
    model.head = generates ? mkmodel::HeadChoice::kNone : mkmodel::HeadChoice::kEmbedding;
    model.seed = tenant + 1;
    if (!std::filesystem::exists(directory)) ITIF_TRY(mkmodel::make_model(model, directory));
    ITIF_TRY(group->admit(directory, nullptr));
  }
  ITIF_ASSIGN(const auto sequential, serve(*group, device, false));
  ITIF_ASSIGN(const auto overlapped, serve(*group, device, true));
  Serving* both[] = {sequential.get(), overlapped.get()};
  const uint64_t slice_ns = options.quick ? 100'000'000 : 500'000'000;
  for (Serving* one : both) {
    do one->run(slice_ns);
    while (!one->loop->all_answered());
    one->num_tokens = one->execute_ns = 0;
  }
  if (const Status same = check_same(generates, device.info().compute.activations,
                                     *sequential->loop, *overlapped->loop);
      !same)
    return fail(same.error().code, fmt::format("{}: {}", name, same.error().message));
  Samples samples[2];
  for (int turn = 0; turn < (options.quick ? 5 : 11); ++turn)
    for (int i = 0; i < 2; ++i) samples[i].add(both[i]->run(slice_ns));
  for (const Serving* one : both)
    if (one->loop->num_failed() > 0)
      return fail(Code::kInternal,
                  fmt::format("{}: {} requests failed", name, one->loop->num_failed()));
  const double limit = static_cast<double>(overlapped->num_tokens) /
                       static_cast<double>(overlapped->execute_ns) * 1e9;
  for (int i = 0; i < 2; ++i) {
    const double rate = 1e9 / samples[i].median();
    report.add({.name = name,
                .mode = i == 0 ? "one after another" : "overlapped",
                .value = rate,
                .unit = "tokens/s",
                .spread = samples[i].spread(),
                .limit = limit,
                .ratio = rate / limit});
  }
  return {};
}

}  // namespace

Status bench_overlap(const BenchOptions& options, Report& report) {
  ITIF_ASSIGN(const ModelFolder models, ModelFolder::make());
  std::vector<uint32_t> threads = {options.threads};
  if (const unsigned all = std::thread::hardware_concurrency(); options.threads == 0 && all > 1)
    threads = {all - 1, all};
  for (const char* preset_name : kPresets) {
    ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(preset_name));
    for (const uint32_t count : threads) {
      BenchOptions some = options;
      some.threads = count;
      ITIF_TRY(on_each_device(some, report,
                              [&](device::Device& device, const std::string& dtype) -> Status {
                                if (device.info().kind == "cuda" && count != threads.back())
                                  return {};
                                return run_preset(some, device, dtype, *preset, models, report);
                              }));
    }
  }
  return {};
}

}  // namespace itif::bench
