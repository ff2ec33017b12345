// Builds the JSON documents about the running appliance from the pipeline's and the tenant
// service's figures.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "config/config.h"
#include "control/documents.h"
#include "pipeline/pipeline.h"
#include "serving/device_table.h"
#include "serving/group_watch.h"
#include "serving/tenant_service.h"
#include "serving/window.h"

namespace itif::serving {

class ApplianceDocuments final : public control::Documents {
 public:
  // All arguments must outlive the object.
  ApplianceDocuments(const config::Config& config, const Clock& clock, const DeviceTable& devices,
                     pipeline::Pipeline& pipeline, TenantService& service, GroupWatch& watch);

  // In watch_documents.cc.
  Result<nlohmann::json> tenant_stages(uint32_t id) const override;
  Result<nlohmann::json> bottleneck(const std::string& group, uint64_t interval_ns) const override;
  Result<nlohmann::json> start_trace(uint32_t id, uint32_t requests) const override;
  Result<nlohmann::json> trace(uint32_t trace, uint32_t first) const override;
  Result<nlohmann::json> stop_trace(uint32_t trace) const override;
  // In group_documents.cc.
  nlohmann::json groups() const override;
  Result<nlohmann::json> planner(const std::string& group) const override;
  Result<nlohmann::json> profile(const std::string& group) const override;
  Result<nlohmann::json> knee(const std::string& group,
                              std::optional<uint64_t> threshold_percent) const override;
  // In appliance_documents.cc.
  nlohmann::json stats() const override;
  nlohmann::json drops() const override;
  nlohmann::json device() const override;
  nlohmann::json health() const override;
  nlohmann::json data_address() const override;

 private:
  double uptime_s() const;
  bool stamps_stages() const;
  Result<TenantInfo> find_tenant(uint32_t id) const;

  const config::Config& config_;
  const Clock& clock_;
  const DeviceTable& devices_;
  pipeline::Pipeline& pipeline_;
  TenantService& service_;
  GroupWatch& watch_;
  uint64_t started_ns_;
  mutable Window window_;
};

}  // namespace itif::serving
