#include "device/host/host_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/host/memory.h"
#include "device/host/pool_placement.h"
#include "device/host/pool_wait.h"
#include "device/stream/async_stream.h"
#include "device/threads.h"
#include "device/turn_taking.h"
#include "kernels/host/launch.h"

namespace itif::device {
namespace {

class HostStream final : public ImmediateStream, public TurnTaking {
 public:
  HostStream(const kernels::host::HostLaunch& launch, const StreamLimits& limits,
             const StreamOptions& options, std::unique_ptr<GemmLibrary::Runner> gemms,
             LazyMapping scratch, PoolThrottle* throttle, std::shared_ptr<Turns> turns)
      : launch_(launch),
        limits_(limits),
        cpus_(options.share.cpus),
        gemms_(std::move(gemms)),
        scratch_(std::move(scratch)),
        throttle_(throttle),
        placement_(launch.num_threads),
        turns_(std::move(turns), options.share.percent, options.is_awaited) {
    launch_.scratch = {.base = scratch_.data(),
                       .bytes_per_thread = scratch_.bytes() / launch_.num_threads};
    part_ranges_.reserve(limits.max_segments);
  }
  ~HostStream() override { sleep_early(false); }

  void attach_thread() override { use_cpus(cpus_); }
  void sleep_early(bool early) noexcept override {
    if (throttle_ == nullptr || std::exchange(sleeps_early_, early) == early) return;
    early ? throttle_->hold() : throttle_->release();
  }

  void set_percent(double percent) noexcept override { turns_.set_share(percent); }
  uint64_t turn_wait_ns() const noexcept override { return turns_.waited_ns(); }
  uint64_t foreground_ns() const noexcept override { return turns_.foreground_ns(); }
  void set_background(bool is_background) noexcept override {
    turns_.set_background(is_background);
  }

  void dispatch(kernels::Operator op) override {
    if (std::exchange(is_between_batches_, false))
      sleeps_early_ ? placement_.unpin() : placement_.keep_apart();
    turns_.begin();
    std::visit([this](const auto* args) { run(*args); }, op);
    turns_.pass();
  }

  void copy_to_host(const void* source, size_t bytes, void* target) override {
    if (bytes != 0) std::memcpy(target, source, bytes);
  }

  Event record() override {
    turns_.end();
    is_between_batches_ = true;
    return ImmediateStream::record();
  }
  Status synchronize() override {
    turns_.end();
    is_between_batches_ = true;
    return std::exchange(status_, {});
  }

 private:
  template <class Args>
  void run(const Args& args) {
    kernels::host::run(args, launch_);
  }
  void run(const kernels::EmbedLayerNorm& args) { run_in_rows(args, args.hidden, embed_pace_); }
  void run(const kernels::BiasActivation& args) { run_in_rows(args, args.width, bias_pace_); }
  void run(const kernels::ResidualLayerNorm& args) { run_in_rows(args, args.hidden, norm_pace_); }
  // Runs an operator that computes each row of its ranges for itself, and passes the turn between
  // parts of the rows.
  template <class Args>
  void run_in_rows(const Args& args, uint32_t width, TurnTaker::Pace& pace) {
    if (!turns_.has_company()) return kernels::host::run(args, launch_);
    Args part = args;
    uint32_t done = 0;  // rows of the next range
    for (size_t next = 0; next < args.ranges.size();) {
      const double most =
          std::max<double>(TurnTaker::kMinPartRows, turns_.part_units(pace) / width);
      uint32_t rows = 0;
      part_ranges_.clear();
      while (next < args.ranges.size() && rows < most) {
        const kernels::RowRange& range = args.ranges[next];
        const auto take =
            static_cast<uint32_t>(std::min<double>(range.num_rows - done, std::ceil(most - rows)));
        part_ranges_.push_back(
            {.first_row = range.first_row + done, .num_rows = take, .slot = range.slot});
        rows += take;
        done += take;
        if (done < range.num_rows) continue;
        done = 0;
        ++next;
      }
      part.ranges = part_ranges_;
      turns_.begin_part();
      kernels::host::run(part, launch_);
      turns_.end_part(pace, std::max(1.0, 1.0 * rows * width));
    }
  }
  void run(const kernels::GroupedGemms& args) {
    if (Status status = gemms_->run(args.all, &turns_); !status && status_)
      status_ = std::move(status);
    for (const kernels::GroupedGemm& gemm : args.all)
      if (gemm.activation != kernels::Activation::kNone)
        run(kernels::BiasActivation{.x = gemm.out,
                                    .bias = {},
                                    .width = gemm.n,
                                    .activation = gemm.activation,
                                    .ranges = gemm.ranges});
  }
  void run(const kernels::Attention& args) {
    CHECK(args.segments.size() <= limits_.max_segments);
    for (const kernels::SegmentRows& segment : args.segments)
      CHECK(segment.num_rows <= limits_.max_tokens);
    if (!args.is_plain() || !turns_.has_company()) return kernels::host::run(args, launch_);
    kernels::Attention part = args;
    for (size_t first = 0; first < args.segments.size(); first += part.segments.size()) {
      const double most = turns_.part_units(attention_pace_);
      double units = 0;
      size_t count = 0;
      do
        units +=
            1.0 * args.segments[first + count].num_rows * args.segments[first + count].num_rows;
      while (++count < args.segments.size() - first && units < most);
      part.segments = args.segments.subspan(first, count);
      turns_.begin_part();
      kernels::host::run(part, launch_);
      turns_.end_part(attention_pace_, std::max(1.0, units));
    }
  }

  kernels::host::HostLaunch launch_;
  const StreamLimits limits_;
  const std::vector<unsigned> cpus_;
  std::unique_ptr<GemmLibrary::Runner> gemms_;
  LazyMapping scratch_;           // launch_.scratch
  PoolThrottle* const throttle_;  // null: the pool always spins
  bool sleeps_early_ = false;     // holds throttle_
  bool is_between_batches_ = true;
  PoolPlacement placement_;
  TurnTaker turns_;
  TurnTaker::Pace attention_pace_;                      // per score
  TurnTaker::Pace embed_pace_, bias_pace_, norm_pace_;  // per value
  std::vector<kernels::RowRange> part_ranges_;
  Status status_;  // the first failure since synchronize()
};

}  // namespace

Result<std::unique_ptr<Stream>> make_host_stream(
    GemmLibrary& gemms, const kernels::host::HostLaunch& launch, PoolThrottle& throttle,
    std::shared_ptr<Turns> turns, const StreamLimits& limits, const StreamOptions& options) {
  ITIF_ASSIGN(auto runner, gemms.make_runner(launch.num_threads));
  ITIF_ASSIGN(auto scratch,
              LazyMapping::reserve(kernels::host::attention_scratch_bytes(limits.max_tokens) *
                                   launch.num_threads));
  const bool may_throttle = launch.num_threads > 1 && chooses_pool_spinning();
  if (may_throttle) ITIF_TRY(throttle.start());
  const bool throttles = may_throttle && options.shares_cpus;
  auto stream =
      std::make_unique<HostStream>(launch, limits, options, std::move(runner), std::move(scratch),
                                   throttles ? &throttle : nullptr, std::move(turns));
  if (!options.is_async) return stream;
  return AsyncStream::make(std::move(stream), options);
}

}  // namespace itif::device
