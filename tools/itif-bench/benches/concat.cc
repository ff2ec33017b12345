// itif-bench concat: TCB's Figures 9 to 12 on this device. Requests arrive as a Poisson process,
// wait in a group's executor, and count if they are answered by their deadlines. Planners naive
// (the paper's TNB), turbo (TTB), concat (TCB) and packed, under das and fcfs; and concat under
// each policy (Figure 15).
//
// Lengths as in the paper: 3 to 100 tokens, mean 20, variance 20 or 100. With 20 as their standard
// deviation (variance 400), lengths of 100 occur, as the paper's figures suggest. A batch has 16
// rows of 100 tokens: a request per row with naive and turbo, as many as fit with concat and
// packed. Figures 15a and 15c have other rows. The paper states no deadlines; here they are 1.3 to
// 6.7 times the longest batch of 16 rows of 100, drawn uniformly. Rates are multiples of the
// answers/s of packed under overload. Three layers of BERT-base's size, one tenant.
#include <fmt/format.h>

#include <map>
#include <span>
#include <string>
#include <utility>

#include "benches.h"
#include "make_model.h"
#include "workload/concat_load.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"
#include "workload/model_folder.h"

namespace itif::bench {
namespace {

constexpr uint32_t kConcatLayers = 3;
constexpr double kVariances[] = {20, 100, 400};
constexpr const char* kConcatOnHost =
    "on a CPU, the time of a batch follows its rows. So concat saves the others' padding and no "
    "more. The paper's GPU is partly idle with 64 short rows, and concat fills it as well";
constexpr const char* kDasAndSjf =
    "sjf answers all requests up to some length soon after they arrive, and none that are longer. "
    "With a utility of 1/length that is nearly the best schedule, which leaves das little to gain";
constexpr const char* kConcatSchedulers[] = {"das", "fcfs"};
constexpr double kRateFactors[] = {0.5, 1, 2};
constexpr const char* kDas = "das";
constexpr const char* kPolicies[] = {"fcfs", "edf", "sjf", kDas, "slotted_das"};
constexpr double kPolicyFactors[] = {1, 1.5, 2};
constexpr double kOverload[] = {2};  // with other sizes of a batch
constexpr double kPeakFactor = 4;    // of the overload that measures packed's peak

const ConcatMode kConcatModes[] = {{"naive", "naive", kBatchRows},
                                   {"turbo", "turbo", kBatchRows},
                                   {"concat", "concat:row_tokens=100", kMaxBatchRequests},
                                   {"packed", "packed", kMaxBatchRequests}};
constexpr size_t kConcat = 2, kPacked = 3;  // their indices

// The rows of a batch under the policies: Figures 15a and 15c beside the 16 rows of 100.
struct BatchSize {
  uint32_t rows, row_tokens;

  ConcatMode mode(const char* name, std::string planner) const {
    const uint32_t tokens = rows * row_tokens;
    return {name, std::move(planner), tokens / kMinLength, tokens};
  }
  ConcatMode concat() const {
    return mode("concat", fmt::format("concat:row_tokens={}", row_tokens));
  }
  ConcatMode packed() const { return mode("packed", "packed"); }
};
constexpr BatchSize kUsualSize = {kBatchRows, kRowTokens};
constexpr BatchSize kOtherSizes[] = {{4, 100}, {8, 100}, {32, 100}, {16, 200}, {16, 400}};

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

Result<ConcatLoad::Figures> run_load(const ConcatGroup& group, const ConcatMode& mode,
                                     const char* scheduler, ConcatLoad& load,
                                     const ConcatTimes& times, double rate) {
  ITIF_ASSIGN(const auto executor, group.executor(mode, scheduler));
  const ConcatLoad::Figures figures =
      load.run(*executor, rate, times.longest_batch_ns, times.warm_up_ns, times.measured_ns);
  if (figures.failed > 0)
    return fail(Code::kInternal,
                fmt::format("{}, {}: {} requests failed", mode.name, scheduler, figures.failed));
  return figures;
}

// Returns the answers/s of packed under overload.
Result<double> peak_rate(const ConcatGroup& group, const BatchSize& size, const char* scheduler,
                         ConcatLoad& load, const ConcatTimes& times) {
  // A batch of packed has no more tokens than naive's longest, and is no slower.
  const double estimate =
      kBatchTokens / (static_cast<double>(times.longest_batch_ns) * 1e-9) / kMeanLength;
  ITIF_ASSIGN(const ConcatLoad::Figures peak,
              run_load(group, size.packed(), scheduler, load, times, kPeakFactor * estimate));
  return peak.rate();
}

Status compare_concat(const ConcatGroup& group, const std::string& name, const char* scheduler,
                      ConcatLoad& load, const ConcatTimes& times, Report& report) {
  ITIF_ASSIGN(const double peak, peak_rate(group, kUsualSize, scheduler, load, times));
  for (const double factor : kRateFactors) {
    const bool is_last = factor == kRateFactors[std::size(kRateFactors) - 1];
    const double rate = factor * peak;
    Samples answers[std::size(kConcatModes)], utility[std::size(kConcatModes)];
    for (uint32_t i = 0; i < (is_last ? times.repeats : 1); ++i)
      for (size_t m = 0; m < std::size(kConcatModes); ++m) {
        ITIF_ASSIGN(const ConcatLoad::Figures figures,
                    run_load(group, kConcatModes[m], scheduler, load, times, rate));
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

// Utility of concat under each policy, at rates of `factors` times the peak.
Status compare_policies(const ConcatGroup& group, const BatchSize& size,
                        std::span<const double> factors, const std::string& name, ConcatLoad& load,
                        const ConcatTimes& times, Report& report) {
  ITIF_ASSIGN(const double peak, peak_rate(group, size, kDas, load, times));
  for (const double factor : factors) {
    const std::string row = fmt::format("{}, {:g}x", name, factor);
    const bool is_last = factor == factors.back();
    std::map<std::string, Samples> utility;
    for (uint32_t i = 0; i < (is_last ? times.repeats : 1); ++i)
      for (const char* policy : kPolicies) {
        ITIF_ASSIGN(const ConcatLoad::Figures figures,
                    run_load(group, size.concat(), policy, load, times, factor * peak));
        utility[policy].add(figures.utility / figures.seconds);
      }
    for (const char* policy : kPolicies)
      report.add({.name = row,
                  .mode = policy,
                  .value = utility[policy].median(),
                  .unit = "utility/s",
                  .spread = utility[policy].spread()});
    for (const char* policy : kPolicies) {
      if (policy == kDas) continue;
      const Samples ratio = paired_ratios(utility[kDas], utility[policy]);
      report.add({.name = row,
                  .mode = fmt::format("{} / {}", kDas, policy),
                  .value = ratio.median(),
                  .unit = "times",
                  .spread = ratio.spread()});
    }
  }
  return {};
}

std::string variance_case(double variance, const char* what, const std::string& dtype) {
  return fmt::format("variance {:g}, {}, {}", variance, what, dtype);
}

std::string size_case(const BatchSize& size, const std::string& dtype) {
  return variance_case(kVariances[0],
                       fmt::format("policies, {} rows of {}", size.rows, size.row_tokens).c_str(),
                       dtype);
}

std::vector<std::string> concat_cases(const BenchOptions& options, const std::string& dtype) {
  std::vector<std::string> names;
  for (const double variance : kVariances) {
    for (const char* scheduler : kConcatSchedulers) {
      names.push_back(variance_case(variance, scheduler, dtype));
      if (options.quick) break;
    }
    names.push_back(variance_case(variance, "policies", dtype));
    if (options.quick) break;
  }
  for (const BatchSize& size : kOtherSizes) names.push_back(size_case(size, dtype));
  return names;
}

Status run_concat(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  const std::filesystem::path& model, const model::BackboneSpec& spec,
                  Report& report) {
  if (!options.wants_any(concat_cases(options, dtype))) return {};
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
      const std::string name = variance_case(variance, scheduler, dtype);
      if (!options.wants(name)) continue;
      ITIF_TRY(compare_concat(group, name, scheduler, load, times, report));
      if (options.quick) break;
    }
    const std::string name = variance_case(variance, "policies", dtype);
    if (options.wants(name))
      ITIF_TRY(compare_policies(group, kUsualSize, kPolicyFactors, name, load, times, report));
    if (options.quick) break;
  }
  ConcatLoad load(group, kVariances[0], spec.vocab);
  for (const BatchSize& size : kOtherSizes) {
    const std::string name = size_case(size, dtype);
    if (options.wants(name))
      ITIF_TRY(compare_policies(group, size, kOverload, name, load, times, report));
    if (options.quick) break;
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
      "1.72. For utility: variance 20, das: concat / naive 2.20, concat / turbo 1.29; policies: "
      "das "
      "/ sjf 1.40");
  report.note(kDasAndSjf);
  return on_each_device(options, report, [&](device::Device& device, const std::string& dtype) {
    if (device.info().kind == "host") report.note(kConcatOnHost);
    return run_concat(options, device, dtype, path, model.spec, report);
  });
}

}  // namespace itif::bench
