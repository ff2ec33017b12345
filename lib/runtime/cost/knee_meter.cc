#include "runtime/cost/knee_meter.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/turn_taking.h"

namespace itif::runtime {
namespace {

constexpr uint32_t kBatches[] = {1, 8, 32};  // requests
constexpr uint32_t kTokens = 64;             // of a request

// The competitor's operator takes some ten microseconds, much less than a turn.
constexpr uint32_t kCompetitorRows = 64, kCompetitorWidth = 768;

}  // namespace

std::vector<slice::BatchCurve> KneeMeter::batch_sizes(const Group& group,
                                                      const Group::ProfiledWork& work) {
  const uint32_t longest = std::min(group.spec().max_tokens(), group.options().max_tokens);
  const uint32_t tokens = work.has_one_length ? longest : std::min(longest, kTokens);
  std::vector<slice::BatchCurve> sizes;
  for (const uint32_t requests : kBatches)
    if (requests <= group.options().max_requests &&
        uint64_t{requests} * tokens <= group.options().max_tokens)
      sizes.push_back({.requests = requests, .tokens = tokens});
  return sizes;
}

KneeMeter::KneeMeter(const device::Device& device, const Clock& clock, Group::ProfiledWork work,
                     std::vector<slice::BatchCurve> sizes, size_t num_shares)
    : divides_time_(device.info().division == device::Division::kTime),
      clock_(clock),
      work_(std::move(work)),
      curves_(std::move(sizes)),
      num_points_(curves_.size() * num_shares) {
  CHECK(work_.launch_pass);
  for (slice::BatchCurve& curve : curves_) curve.points.reserve(num_shares);
}

void KneeMeter::begin(double percent) noexcept {
  percent_ = percent;
  curve_ = 0;
  settling_ns_ = 0;
}

bool KneeMeter::has_settled() const noexcept {
  return divides_time_ ? settling_ns_ >= kSettleNs : num_passes_ >= kWarmUps;
}

bool KneeMeter::is_measured() const noexcept {
  return divides_time_ ? num_counted_ >= kLeastPasses && total_ns_ >= kMeasureNs
                       : num_counted_ >= kSamples;
}

bool KneeMeter::step(device::Stream& stream) noexcept {
  if (curve_ == curves_.size() || !status_) return false;
  const slice::BatchCurve& size = curves_[curve_];
  const auto* const turns = dynamic_cast<const device::TurnTaking*>(&stream);
  const auto foreground_ns = [turns] { return turns == nullptr ? 0 : turns->foreground_ns(); };
  const uint64_t before_ns = clock_.now_ns(), foreground_before_ns = foreground_ns();
  work_.launch_pass(stream, size.requests, size.tokens);
  const device::Stream::Completion done = stream.wait(stream.record());
  if (!done.status) {
    status_ = done.status;
    return false;
  }
  uint64_t ns = clock_.now_ns() - before_ns;
  ns -= std::min(ns, foreground_ns() - foreground_before_ns);
  if (!divides_time_ && done.device_ns != 0) ns = done.device_ns;
  ns = std::max<uint64_t>(1, ns);
  if (has_settled()) {
    least_ns_ = std::min(least_ns_, ns);
    total_ns_ += ns;
    ++num_counted_;
  } else {
    settling_ns_ += ns;
  }
  ++num_passes_;
  if (is_measured()) add_point();
  return curve_ < curves_.size();
}

// Credits stay spent while the batch size changes, so the next one settles no more.
void KneeMeter::add_point() {
  slice::BatchCurve& curve = curves_[curve_++];
  const double pass_ns = divides_time_ ? static_cast<double>(total_ns_) / num_counted_
                                       : static_cast<double>(least_ns_);
  curve.points.push_back({.percent = percent_, .throughput = curve.requests * 1e9 / pass_ns});
  ++num_measured_;
  num_passes_ = 0;
  least_ns_ = UINT64_MAX;
  total_ns_ = 0;
  num_counted_ = 0;
}

double KneeMeter::progress() const noexcept {
  return num_points_ == 0 ? 1
                          : static_cast<double>(num_measured_) / static_cast<double>(num_points_);
}

Result<std::vector<slice::BatchCurve>> KneeMeter::finish() const {
  if (!status_) return std::unexpected(status_.error());
  return curves_;
}

Result<std::unique_ptr<TimeCompetitor>> TimeCompetitor::start(device::Device& device,
                                                              const device::Share& share,
                                                              const Clock& clock) {
  CHECK(device.info().division == device::Division::kTime);
  std::unique_ptr<TimeCompetitor> competitor(new TimeCompetitor);
  const size_t row_bytes =
      size_t{kCompetitorWidth} * dtype_bytes(device.info().compute.activations);
  ITIF_ASSIGN(competitor->values_,
              device.allocate((kCompetitorRows + device.row_slack()) * row_bytes));
  ITIF_ASSIGN(competitor->stream_,
              device.make_stream({.max_tokens = kCompetitorRows, .max_segments = 1},
                                 {.share = share, .clock = &clock}));
  if (auto* const turns = dynamic_cast<device::TurnTaking*>(competitor->stream_.get()))
    turns->set_background(true);
  competitor->thread_ = std::thread([one = competitor.get()] { one->run(); });
  return competitor;
}

TimeCompetitor::~TimeCompetitor() {
  ends_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void TimeCompetitor::run() noexcept {
  pthread_setname_np(pthread_self(), "itif-compete");
  stream_->attach_thread();
  const kernels::RowRange rows{.first_row = 0, .num_rows = kCompetitorRows, .slot = 0};
  while (!ends_.load(std::memory_order_relaxed))
    stream_->launch(kernels::BiasActivation{.x = values_->data(),
                                            .bias = {},
                                            .width = kCompetitorWidth,
                                            .activation = kernels::Activation::kGelu,
                                            .ranges = {&rows, 1}});
  [[maybe_unused]] const device::Stream::Completion done = stream_->wait(stream_->record());
}

}  // namespace itif::runtime
