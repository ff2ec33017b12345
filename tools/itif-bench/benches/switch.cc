// itif-bench switch: batches of a small encoder whose share of the device changes between two
// batches, against batches without a change. Cases: "alone", and "beside another", while another
// stream computes all the time. Modes: "kept" and "switched", the times of batches; "call", the
// time of the change itself, which lies between the last launch under the old share and the first
// under the new one; "added", what the slowest 1 % of the batches take longer if the share changes,
// with all that the change causes later. A note tells its standard error, and whether it may be
// noise.
// Source: GSLICE, section 3.2.4, whose switch takes less than 100 µs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "benches.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"

namespace itif::bench {
namespace {

constexpr double kPaperUs = 100;
constexpr double kOwnGoalUs = 10;
constexpr double kShares[] = {30, 70};  // percent
constexpr double kSlowest = 0.99;
constexpr size_t kParts = 10;  // of a run, which give "added" its standard error

// How much later the slowest batches of `changed` end than those of `kept`.
struct Difference {
  double us = 0;
  double error_us = 0;  // standard error of the mean over the parts
  bool is_resolved() const { return std::abs(us) > 2 * error_us; }
};

Difference slowest_difference(const Samples& kept, const Samples& changed) {
  const auto slowest_us = [](std::span<const double> ns, size_t part) {
    const size_t size = ns.size() / kParts;
    Samples samples;
    for (const double one : ns.subspan(part * size, size)) samples.add(one);
    return samples.at(kSlowest) / 1e3;
  };
  double sum = 0, squares = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const double us = slowest_us(changed.in_order, part) - slowest_us(kept.in_order, part);
    sum += us;
    squares += us * us;
  }
  const double mean = sum / kParts;
  const double variance = std::max(0.0, squares / kParts - mean * mean);
  return {.us = mean, .error_us = std::sqrt(variance / (kParts - 1))};
}

model::BackboneSpec small_encoder() {
  model::BackboneSpec spec = bert_base();
  spec.layers = 2;
  spec.hidden = 128;
  spec.heads = 2;
  spec.intermediate = 512;
  return spec;
}

// Computes on a stream of its own all the time.
class Other {
 public:
  Other(Encoder& encoder, const Encoder::Batch& batch) {
    thread_ = std::thread([&] {
      encoder.stream().attach_thread();
      while (!ends_.load() && status_) status_ = encoder.forward(batch);
    });
  }
  ~Other() { stop(); }
  Status stop() {
    ends_.store(true);
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  std::atomic<bool> ends_{false};
  Status status_;
  std::thread thread_;
};

Status measure_case(const BenchOptions& options, Report& report, const std::string& name,
                    const std::string& dtype, Encoder& encoder, const Encoder::Batch& batch) {
  Status status;
  const auto forward = [&] {
    if (status) status = encoder.forward(batch);
  };
  size_t turn = 0;
  Samples calls;
  const auto switched = [&] {
    const auto before = std::chrono::steady_clock::now();
    encoder.stream().set_percent(kShares[++turn % std::size(kShares)]);
    calls.add(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before)
                  .count());
    forward();
  };
  Effort effort = options.effort();
  effort.least = std::max<uint32_t>(effort.least, 2 * kParts);
  if (!options.quick) effort = {.seconds = 20, .least = 1000, .most = 20'000, .warm_ups = 50};
  const std::vector<Samples> samples = measure({forward, switched}, effort);
  ITIF_TRY(std::move(status));
  const auto row = [&](const char* mode, double us, double spread) {
    return Row{.name = name,
               .mode = fmt::format("{} {}", dtype, mode),
               .value = us,
               .unit = "us",
               .spread = spread};
  };
  const Samples &kept = samples[0], &changed = samples[1];
  report.add(row("kept", kept.median() / 1e3, kept.spread()));
  report.add(row("switched", changed.median() / 1e3, changed.spread()));
  report.add(row("call", calls.median() / 1e3, calls.spread()));
  const Difference difference = slowest_difference(kept, changed);
  Row added = row("added", difference.us, difference.error_us / std::abs(difference.us));
  added.limit = kPaperUs;
  added.ratio = added.value / kPaperUs;
  report.add(std::move(added));
  report.note(fmt::format(
      "{}: the slowest 1 % of {} batches take {:.1f} us or more without a switch, {:.1f} us with "
      "one: {:.2f} us more, standard error {:.2f}{}; 1 % of the calls take {:.2f} us or more; "
      "goals: "
      "{:.0f} us (paper), {:.0f} us",
      name, kept.ns.size(), kept.at(kSlowest) / 1e3, changed.at(kSlowest) / 1e3, difference.us,
      difference.error_us, difference.is_resolved() ? "" : ", which may be noise",
      calls.at(kSlowest) / 1e3, kPaperUs, kOwnGoalUs));
  return {};
}

}  // namespace

Status bench_switch(const BenchOptions& options, Report& report) {
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        if (device.info().division == device::Division::kNone) {
          report.note("the streams of this device have no shares");
          return {};
        }
        const model::BackboneSpec spec = small_encoder();
        const EncoderCase small{.name = "64", .lengths = {{64}}};
        const Encoder::Batch batch = Encoder::make_batch(small, spec.vocab);
        ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, 1, 64));
        if (options.wants("alone"))
          ITIF_TRY(measure_case(options, report, "alone", dtype, *encoder, batch));
        if (!options.wants("beside another")) return {};
        ITIF_ASSIGN(const auto rival, Encoder::make(device, spec, 1, 64));
        Other other(*rival, batch);
        ITIF_TRY(measure_case(options, report, "beside another", dtype, *encoder, batch));
        return other.stop();
      });
}

}  // namespace itif::bench
