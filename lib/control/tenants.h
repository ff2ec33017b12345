// Changes to tenants: each is applied to the appliance, committed to the registry, then answered.
// If the commit fails, the appliance is restored. A removal is committed before it is applied.
//
// Keeps no copy of a tenant: the appliance owns the tenants' state, and every answer reads it.
//
// Only the job thread makes changes. list(), show(), versions(), counts() and failures(): any
// thread. tenants_versions.cc has the operations on versions.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/appliance.h"
#include "control/operation.h"
#include "control/registry.h"

namespace itif::control {

using Notify = std::function<void(const std::string& event, const nlohmann::json& fields)>;

class Tenants {
 public:
  // All must outlive this object. `notify` is called from the job thread.
  Tenants(Registry& registry, Appliance& appliance, const Clock& clock, Notify notify)
      : registry_(registry), appliance_(appliance), clock_(clock), notify_(std::move(notify)) {}

  // Admits each tenant that is listed as loading; one that cannot be admitted becomes "failed",
  // with the reason. cancel() makes it return early; the remaining tenants stay loading.
  void restore();
  // Saves what the appliance has noted in the tenants' records. It does so at a start from an older
  // registry, after a handover, whose new process has restored a copy of the registry, and when
  // files of models have changed.
  void save_notes();
  void cancel() { cancelled_.store(true); }  // any thread

  Result<nlohmann::json> run(const AddTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const UpdateTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const PauseTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const ResumeTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const PromoteTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const RollBackTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const RemoveTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const RotateKey& op, const Progress& progress);

  Result<tenant::Info> find(const tenant::Ref& ref) const;  // Errors: kNotFound
  nlohmann::json list() const;
  Result<nlohmann::json> show(const tenant::Ref& ref) const;      // Errors: kNotFound
  Result<nlohmann::json> versions(const tenant::Ref& ref) const;  // Errors: kNotFound
  nlohmann::json counts() const;    // {"serving":n,"paused":n,"loading":n,"failed":n}
  nlohmann::json failures() const;  // [{"id":n,"name":TEXT,"message":TEXT}] of what is not loaded

 private:
  // Returns the directory of a base: its own path, or the whole model that a tenant has or that its
  // adapter is over. Errors: kNotFound.
  Result<std::string> base_dir(const std::string& base) const;
  // Replaces `old` by `next` in the appliance and the registry. Returns the changed tenant. `load`:
  // if the tenant is not loaded, its model is.
  Result<tenant::Info> change(const tenant::Info& old, tenant::Record next, bool load,
                              const Progress& progress);
  void put_back(const tenant::Info& old, bool load);
  void save_notes_of(const tenant::Record& record);
  // Adds the new version, or changes the canary's part of the requests, as `op` says.
  Status change_versions(const UpdateTenant& op, const tenant::Info& old,
                         tenant::Record& next) const;
  nlohmann::json announce(const char* event, const tenant::Info& info);

  Registry& registry_;
  Appliance& appliance_;
  const Clock& clock_;
  Notify notify_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace itif::control
