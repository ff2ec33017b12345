// The tenants of the control server: the registry's rows and the state of each in the appliance.
// A change is applied to the appliance, committed to the registry, then answered. If the commit
// fails, the appliance is restored. A removal is committed before it is applied.
//
// Only the worker thread makes changes. list(), show(), counts() and failures(): any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
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
  // All must outlive this object. `notify` is called from the worker thread.
  Tenants(Registry& registry, Appliance& appliance, const Clock& clock, Notify notify)
      : registry_(registry), appliance_(appliance), clock_(clock), notify_(std::move(notify)) {}

  // Lists the rows as loading and passes them to the appliance's expect(). REQUIRES: no other call
  // came before, on any thread.
  void list_as_loading(const std::vector<TenantRecord>& records);
  // Admits each tenant; one that cannot be admitted becomes "failed", with the reason. cancel()
  // makes it return early; the remaining tenants stay loading.
  void restore();
  void cancel() { cancelled_.store(true); }  // any thread

  Result<nlohmann::json> run(const AddTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const UpdateTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const PauseTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const ResumeTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const RemoveTenant& op, const Progress& progress);
  Result<nlohmann::json> run(const RotateKey& op, const Progress& progress);

  nlohmann::json list() const;
  Result<nlohmann::json> show(const TenantRef& ref) const;  // Errors: kNotFound
  nlohmann::json counts() const;    // {"serving":n,"paused":n,"loading":n,"failed":n}
  nlohmann::json failures() const;  // [{"id":n,"name":TEXT,"message":TEXT}] of failed tenants

 private:
  enum class Condition : uint8_t { kLoading, kAdmitted, kFailed };
  struct Entry {
    TenantRecord record;
    AdmittedModel model;  // kAdmitted
    Condition condition = Condition::kLoading;
    std::string message;  // kFailed: the reason
  };

  Result<Entry> find(const TenantRef& ref) const;  // a copy
  void put(Entry entry);
  void erase(uint32_t id);
  // Replaces `old` by `next` in the appliance and the registry.
  Result<Entry> change(const Entry& old, TenantRecord next, bool reload, const Progress& progress);
  void put_back(const Entry& old, const Entry& changed, bool reload);
  nlohmann::json announce(const char* event, const Entry& entry);

  static const char* state_name(const Entry& entry);
  static nlohmann::json document(const Entry& entry, bool with_labels);

  Registry& registry_;
  Appliance& appliance_;
  const Clock& clock_;
  Notify notify_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;  // guards entries_ only: never held while loading or committing
  std::map<uint32_t, Entry> entries_;
};

}  // namespace itif::control
