// The knees of the tenant service's groups: throughput by share of the device, measured on demand.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/log.h"
#include "runtime/cost/knee_meter.h"
#include "serving/knee_file.h"
#include "serving/measure_task.h"
#include "serving/tenant_service.h"

namespace itif::serving {
namespace {

constexpr std::array<uint32_t, 10> kPercents = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100};

// Makes compute pools that wait sleep early, also if the group is alone. Beside a competitor they
// do so in any case, and all points of a curve must be measured alike.
class SleepEarly {
 public:
  explicit SleepEarly(device::Device& device) : device_(device) { device_.sleep_early(true); }
  ~SleepEarly() { device_.sleep_early(false); }
  SleepEarly(const SleepEarly&) = delete;
  SleepEarly& operator=(const SleepEarly&) = delete;

 private:
  device::Device& device_;
};

}  // namespace

Result<std::shared_ptr<const slice::KneeProfile>> TenantService::knee(
    const std::string& group) const {
  const std::lock_guard lock(mutex_);
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  if (!layouts_[number].knee)
    return fail(Code::kNotFound,
                fmt::format("the knee of group '{}' has not been measured: itifctl group knee {} "
                            "--measure",
                            group, group));
  return layouts_[number].knee;
}

// Uses the knee that an earlier process has measured on this device, if there is one.
void TenantService::find_knee(uint16_t group) {
  const execution::GroupStage& stage = *stages_[group];
  if (stage.device().info().division == device::Division::kNone) return;
  const std::string backbone = profiled_as(stage);
  const std::string& device = stage.device().info().description;
  auto read = read_knee_profile(profile_dir_ + "/" + knee_file_name(device, backbone));
  if (!read) {
    if (read.error().code != Code::kNotFound)
      log::warning("group {}: its knee is not used: {}", stage.name(), read.error().message);
    return;
  }
  if (read->device == device && read->backbone == backbone) use_knee(group, std::move(*read));
}

void TenantService::use_knee(uint16_t group, slice::KneeProfile profile) {
  {
    const std::lock_guard lock(mutex_);
    layouts_[group].knee = std::make_shared<const slice::KneeProfile>(std::move(profile));
  }
  shares_.set_knee(group, bounding_knee(group));
}

// Returns the knee that bounds the group's share, in percent; 0: none. On a device that divides its
// time, throughput is in proportion to the share: a knee would only keep the group from time that
// it can use.
double TenantService::bounding_knee(uint16_t group) const {
  const auto& knee = layouts_[group].knee;
  const bool bounds = stages_[group]->device().info().division == device::Division::kProcessors;
  return knee && bounds ? knee->knee_percent() : 0;
}

// Errors: kUnsupported: the group has no shares, or generates.
Status TenantService::can_measure_knee(uint16_t group) const {
  execution::GroupStage& stage = *stages_[group];
  const device::DeviceInfo& device = stage.device().info();
  if (device.division == device::Division::kNone)
    return fail(Code::kUnsupported,
                fmt::format("group {} has no knee: {} does not divide its time or processors",
                            stage.name(), device.kind));
  if (!stage.group().profiled_work().launch_pass)
    return fail(Code::kUnsupported,
                fmt::format("group {} generates: it has no batches of one size, so no knee can be "
                            "measured",
                            stage.name()));
  return {};
}

// REQUIRES: the caller ends the measurement of the share.
Status TenantService::measure_shares(uint16_t group, runtime::KneeMeter& meter,
                                     const control::Progress& progress) {
  execution::GroupStage& stage = *stages_[group];
  device::Device& device = stage.device();
  const SleepEarly sleep_early(device);
  MeasureTask task(meter, [this] { return cancelled_.load(); });
  for (const uint32_t percent : kPercents) {
    if (cancelled_.load()) break;
    std::unique_ptr<runtime::TimeCompetitor> competitor;
    if (device.info().division == device::Division::kTime && percent < 100) {
      ITIF_ASSIGN(competitor,
                  runtime::TimeCompetitor::start(
                      device, {.cpus = stage.cpus(), .percent = 100.0 - percent}, clock_));
    }
    shares_.measure(group, percent);
    meter.begin(percent);
    stage.perform(task, [&] {
      if (progress && !cancelled_.load()) progress("measuring the knee", task.progress());
    });
  }
  return {};
}

Status TenantService::measure_knee(uint16_t group, const control::Progress& progress) {
  execution::GroupStage& stage = *stages_[group];
  runtime::Group::ProfiledWork work = stage.group().profiled_work();
  std::vector<slice::BatchCurve> sizes = runtime::KneeMeter::batch_sizes(stage.group(), work);
  runtime::KneeMeter meter(stage.device(), clock_, std::move(work), std::move(sizes),
                           kPercents.size());
  const Status measured = measure_shares(group, meter, progress);
  auto curves = meter.finish();
  const bool is_complete = measured && curves && !cancelled_.load();
  if (is_complete)
    use_knee(group, {.device = stage.device().info().description,
                     .backbone = profiled_as(stage),
                     .curves = std::move(*curves)});
  shares_.end_measuring(group);
  if (cancelled_.load()) return fail(Code::kUnavailable, "itifd is stopping");
  ITIF_TRY(measured);
  if (!curves) return std::unexpected(curves.error());
  const slice::KneeProfile& profile = *layouts_[group].knee;
  std::error_code error;
  std::filesystem::create_directories(profile_dir_, error);
  const std::string path = profile_dir_ + "/" + knee_file_name(profile.device, profile.backbone);
  if (const Status written = write_knee_profile(profile, path); !written)
    return fail(
        written.error().code,
        fmt::format("the knee of group {} is in use, but not saved: a restart forgets it: {}",
                    stage.name(), written.error().message));
  return {};
}

Status TenantService::measure_knee(const std::string& group, const control::Progress& progress) {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  ITIF_TRY(can_measure_knee(number));
  return measure_knee(number, progress);
}

}  // namespace itif::serving
