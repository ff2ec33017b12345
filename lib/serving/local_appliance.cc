#include "serving/local_appliance.h"

#include <nlohmann/json.hpp>

namespace itif::serving {
namespace {

TenantSettings settings_of(const control::TenantRecord& record) {
  return {.id = record.id,
          .name = record.name,
          .model_dir = record.model_dir,
          .group = record.group,
          .slo_ns = record.slo_ns,
          .weight = record.weight,
          .quota_rps = record.quota_rps,
          .auth = record.auth,
          .state = record.state,
          .key = record.key,
          .previous_key = record.previous_key,
          .has_previous_key = record.has_previous_key};
}

control::AdmittedModel admitted(const TenantInfo& entry) {
  return {.group = entry.group,
          .backbone = entry.backbone,
          .head = entry.head,
          .labels = entry.labels,
          .max_tokens = entry.max_tokens,
          .weight_bytes = entry.weight_bytes,
          .shared_bytes = entry.shared_bytes,
          .result_kind = wire::result_kind_name(entry.default_result)};
}

}  // namespace

LocalAppliance::LocalAppliance(const config::Config& config, const Clock& clock,
                               device::Device& device, pipeline::Pipeline& pipeline,
                               TenantService& service)
    : config_(config),
      clock_(clock),
      device_(device),
      pipeline_(pipeline),
      service_(service),
      started_ns_(clock.now_ns()),
      window_(started_ns_) {}

void LocalAppliance::expect(const std::vector<control::TenantRecord>& records) {
  std::vector<TenantSettings> settings;
  for (const control::TenantRecord& record : records) settings.push_back(settings_of(record));
  service_.expect(settings);
}

Result<control::AdmittedModel> LocalAppliance::admit(const control::TenantRecord& record,
                                                     const control::Progress& progress) {
  ITIF_ASSIGN(const TenantInfo entry, service_.admit(settings_of(record), progress));
  return admitted(entry);
}

Result<control::AdmittedModel> LocalAppliance::update(const control::TenantRecord& record,
                                                      bool reload,
                                                      const control::Progress& progress) {
  ITIF_ASSIGN(const TenantInfo entry, service_.update(settings_of(record), reload, progress));
  return admitted(entry);
}

Status LocalAppliance::remove(uint32_t id) {
  return service_.remove(id);
}

void LocalAppliance::expect_planners(const std::map<std::string, std::string>& planners) {
  service_.expect_planners(planners);
}

Result<std::string> LocalAppliance::set_planner(const std::string& group,
                                                const std::string& planner,
                                                const control::Progress& progress) {
  return service_.set_planner(group, planner, progress);
}

Status LocalAppliance::run_profile(const std::string& group, const control::Progress& progress) {
  return service_.run_profile(group, progress);
}

Status LocalAppliance::leave_failed_device(const control::Progress& progress) {
  return service_.leave_failed_device(progress);
}

Status LocalAppliance::reset_device(const control::Progress& progress) {
  return service_.reset_device(progress);
}

Result<uint64_t> LocalAppliance::drain(uint64_t timeout_ns) {
  return service_.drain(timeout_ns);
}

void LocalAppliance::resume_from_drain() {
  service_.resume_from_drain();
}

void LocalAppliance::cancel() {
  service_.cancel();
}

double LocalAppliance::uptime_s() const {
  return static_cast<double>(clock_.now_ns() - started_ns_) * 1e-9;
}

}  // namespace itif::serving
