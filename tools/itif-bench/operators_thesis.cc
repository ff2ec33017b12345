// Tables 5.3 and 5.4: BERT-base's forward pass in the thesis's form, profiled operator by operator: four
// tenants with a request of 128 tokens each, one after another (SEQ) and as one instance (ITIF).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "encoder_setup.h"
#include "kernels/host/launch.h"
#include "operator_rows.h"

namespace itif::bench {
namespace {

constexpr uint32_t kTenants = 4, kLength = 128;
constexpr uint32_t kQuickLayers = 2;

// A row of Table 5.3: an operator that several calls may be; bytes of a layer, read and written, for all
// tenants; ms of the thesis, SEQ and ITIF.
struct MemoryBound {
  const char* name;
  const char* operator_name;
  size_t bytes_of_layer;
  std::optional<double> paper_seq, paper_itif;
};

std::vector<MemoryBound> memory_bound_operators(size_t element) {
  const size_t rows = size_t{kTenants} * kLength;
  const size_t wide = rows * kHidden * element;
  return {{"softmax", "softmax", 2 * rows * kHeads * kLength * element, 0.333, 0.356},
          {"add-bias + LayerNorm", "residual_layer_norm", 2 * 3 * wide, 0.291, 0.310},
          {"add-bias + GELU", "bias_activation", 2 * rows * kIntermediate * element, 0.245, 0.275},
          {"transpose", "merge_heads", 2 * wide, 0.209, 0.220},
          {"bias + transpose of Q/K/V", "split_heads", 6 * wide, {}, {}}};
}

// One way to run the batches, with the figures of its operators a run.
struct Mode {
  const char* name;
  Encoder* encoder;
  device::MeteredStream* stream;
  std::vector<const Encoder::Batch*> batches;
  std::map<std::string, Samples> ns = {};  // by operator
  uint64_t launches = 0;                   // a run

  Status run() {
    stream->clear();
    for (const Encoder::Batch* batch : batches) ITIF_TRY(encoder->forward(*batch));
    for (const device::OperatorFigures& one : stream->operators())
      ns[one.name].ns.push_back(static_cast<double>(one.call_ns));
    launches = stream->total().launches;
    return {};
  }
  Result<std::vector<float>> last_states() {
    std::vector<float> last;
    for (const Encoder::Batch* batch : batches) {
      ITIF_ASSIGN(const std::vector<float> states, encoder->last_states(*batch));
      last.insert(last.end(), states.begin(), states.end());
    }
    return last;
  }
};

Status check_same(std::vector<Mode>& modes) {
  ITIF_ASSIGN(const std::vector<float> expected, modes[0].last_states());
  for (Mode& mode : modes) {
    ITIF_ASSIGN(const std::vector<float> states, mode.last_states());
    for (size_t at = 0; at < expected.size(); at += kHidden)
      if (const double similarity = cosine(states.data() + at, expected.data() + at, kHidden);
          !(similarity >= 0.999))
        return fail(Code::kInternal,
                    fmt::format("{}: tenant {} differs from what {} computes, cosine {}", mode.name,
                                at / kHidden, modes[0].name, similarity));
  }
  return {};
}

// A launch with next to nothing to do, on all threads.
std::function<void()> empty_launch(device::Stream& stream, uint32_t threads) {
  std::vector<float> x(size_t{8} * threads);
  return [&stream, x]() mutable {
    const kernels::RowRange range{0, static_cast<uint32_t>(x.size()), 0};
    stream.bias_activation({.x = x.data(), .bias = {}, .width = 1, .ranges = {&range, 1}});
  };
}

// bytes: read and written together.
std::function<void()> copy_of(size_t bytes, uint32_t threads) {
  std::vector<std::byte> from(bytes / 2), to(bytes / 2);
  return [threads, from, to]() mutable {
    kernels::host::parallel_rows({.num_threads = threads}, static_cast<uint32_t>(from.size()), 4096,
                                 [&](uint32_t begin, uint32_t end) {
                                   std::memcpy(to.data() + begin, from.data() + begin, end - begin);
                                 });
  };
}

}  // namespace

Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report) {
  static const SystemClock clock;
  const std::string suffix =
      fmt::format(", {}{}", options.quick ? fmt::format("{} layers, ", kQuickLayers) : "", dtype);
  const auto operators = memory_bound_operators(dtype_bytes(device.info().compute));
  const std::string launches = "launches" + suffix, time = "launch time" + suffix;
  if (!options.wants(launches) && !options.wants(time) &&
      std::ranges::none_of(
          operators, [&](const MemoryBound& one) { return options.wants(one.name + suffix); }))
    return {};

  model::BackboneSpec spec = bert_base();
  spec.vocab = 1024;
  if (options.quick) spec.layers = kQuickLayers;
  const EncoderCase requests{.name = {}, .lengths = {kTenants, std::vector<uint32_t>{kLength}}};
  const Encoder::Batch all = Encoder::make_batch(requests, spec.vocab);
  std::vector<Encoder::Batch> each;
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant)
    each.push_back(Encoder::of_tenant(all, tenant, tenant));
  std::unique_ptr<Encoder> thesis, fused;
  ITIF_ASSIGN(thesis, Encoder::make(device, spec, kTenants, kTenants * kLength,
                                    {.fidelity = backbone::Fidelity::kThesis}));
  ITIF_ASSIGN(fused, Encoder::make(device, spec, kTenants, kTenants * kLength));
  device::MeteredStream* const thesis_stream = &thesis->meter(clock);
  std::vector<Mode> modes = {{"seq", thesis.get(), thesis_stream, {}},
                             {"itif", thesis.get(), thesis_stream, {&all}},
                             {"itif fused", fused.get(), &fused->meter(clock), {&all}}};
  for (const Encoder::Batch& one : each) modes[0].batches.push_back(&one);
  ITIF_TRY(check_same(modes));

  Status status;
  std::vector<std::function<void()>> runs;
  for (Mode& mode : modes)
    runs.emplace_back([&] {
      if (Status ran = mode.run(); !ran) status = ran;
    });
  const uint32_t threads = device.info().num_threads;
  ITIF_ASSIGN(const auto plain_stream, device.make_stream());
  const size_t first_copy = runs.size();
  for (const MemoryBound& one : operators) runs.push_back(copy_of(one.bytes_of_layer, threads));
  runs.push_back(empty_launch(*plain_stream, threads));
  for (Mode& mode : modes) ITIF_TRY(mode.run());  // pages, caches
  for (Mode& mode : modes) mode.ns.clear();
  const auto samples_of =
      measure(runs, options.quick ? Effort{.seconds = 0.5, .least = 5} : Effort{.seconds = 8});
  ITIF_TRY(std::move(status));
  for (Mode& mode : modes)
    for (auto& [name, samples] : mode.ns) std::ranges::sort(samples.ns);

  for (size_t i = 0; i < operators.size(); ++i) {
    const MemoryBound& one = operators[i];
    if (!options.wants(one.name + suffix)) continue;
    const double limit = spec.layers * samples_of[first_copy + i].median() * 1e-6;
    for (const Mode& mode : {std::cref(modes[0]), std::cref(modes[1])}) {
      const Samples& samples = mode.ns.at(one.operator_name);
      const bool is_seq = &mode == &modes[0];
      report.add({.name = one.name + suffix,
                  .mode = mode.name,
                  .value = samples.median() * 1e-6,
                  .unit = "ms",
                  .spread = samples.spread(),
                  .limit = limit,
                  .ratio = samples.median() * 1e-6 / limit,
                  .paper = options.quick ? std::nullopt
                           : is_seq      ? one.paper_seq
                                         : one.paper_itif});
    }
  }

  // As cudaLaunchKernel's calls: SEQ 776 and 2.834 ms, ITIF 517 and 1.817 ms.
  constexpr std::optional<double> kPaperLaunches[] = {776, 517, {}},
                                  kPaperTime[] = {2.834, 1.817, {}};
  const Samples& empty = samples_of.back();
  for (size_t i = 0; i < modes.size(); ++i)
    if (options.wants(launches))
      report.add({.name = launches,
                  .mode = modes[i].name,
                  .value = static_cast<double>(modes[i].launches),
                  .unit = "launches",
                  .paper = options.quick ? std::nullopt : kPaperLaunches[i]});
  for (size_t i = 0; i < modes.size(); ++i)
    if (options.wants(time))
      report.add({.name = time,
                  .mode = modes[i].name,
                  .value = static_cast<double>(modes[i].launches) * empty.median() * 1e-6,
                  .unit = "ms",
                  .spread = empty.spread(),
                  .paper = options.quick ? std::nullopt : kPaperTime[i]});
  return {};
}

}  // namespace itif::bench
