// itif-bench switch: batches of a small encoder whose share of the device changes between two
// batches, against batches without a change. Cases: "alone", and "beside another", while another
// stream computes all the time. Modes: "kept" and "switched", the times of batches; "added", what
// the slowest 1 % of the batches take longer if the share changes: the time from the last launch
// under the old share to the first under the new one, beyond what lies between any two batches.
// Source: GSLICE, section 3.2.4, whose switch takes less than 100 µs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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
  const auto switched = [&] {
    encoder.stream().set_percent(kShares[++turn % std::size(kShares)]);
    forward();
  };
  Effort effort = options.effort();
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
  const double kept_us = kept.at(kSlowest) / 1e3, changed_us = changed.at(kSlowest) / 1e3;
  Row added = row("added", std::max(0.0, changed_us - kept_us), 0);
  added.limit = kPaperUs;
  added.ratio = added.value / kPaperUs;
  report.add(std::move(added));
  report.note(fmt::format(
      "{}: the slowest 1 % of {} batches take {:.1f} us or more without a switch, {:.1f} us with "
      "one; goals for the difference: {:.0f} us (paper), {:.0f} us",
      name, kept.ns.size(), kept_us, changed_us, kPaperUs, kOwnGoalUs));
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
