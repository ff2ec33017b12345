// Adapts the pipeline and the tenant service to control::Appliance: converts control's records to
// tenant settings, and figures to JSON documents. Makes no decisions.
#pragma once

#include <memory>

#include "base/clock.h"
#include "config/config.h"
#include "control/appliance.h"
#include "device/device.h"
#include "pipeline/pipeline.h"
#include "serving/tenant_service.h"
#include "serving/window.h"

namespace itif::serving {

class LocalAppliance final : public control::Appliance {
 public:
  // All arguments must outlive the appliance.
  LocalAppliance(const config::Config& config, const Clock& clock, device::Device& device,
                 pipeline::Pipeline& pipeline, TenantService& service);

  void expect(const std::vector<control::TenantRecord>& records) override;
  Result<control::AdmittedModel> admit(const control::TenantRecord& record,
                                       const control::Progress& progress) override;
  Result<control::AdmittedModel> update(const control::TenantRecord& record, bool reload,
                                        const control::Progress& progress) override;
  Status remove(uint32_t id) override;
  void expect_planners(const std::map<std::string, std::string>& planners) override;
  Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                  const control::Progress& progress) override;
  Status run_profile(const std::string& group, const control::Progress& progress) override;
  Status leave_failed_device(const control::Progress& progress) override;
  Status reset_device(const control::Progress& progress) override;
  Result<uint64_t> drain(uint64_t timeout_ns) override;
  void resume_from_drain() override;
  void cancel() override;

  nlohmann::json groups() const override;
  Result<nlohmann::json> profile(const std::string& group) const override;
  nlohmann::json stats() const override;
  nlohmann::json drops() const override;
  nlohmann::json device() const override;
  nlohmann::json health() const override;
  nlohmann::json data_address() const override;

 private:
  double uptime_s() const;

  const config::Config& config_;
  const Clock& clock_;
  device::Device& device_;
  pipeline::Pipeline& pipeline_;
  TenantService& service_;
  uint64_t started_ns_;
  mutable Window window_;
};

}  // namespace itif::serving
