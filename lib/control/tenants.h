// The tenants as control knows them: the registry's rows and what became of each in the appliance.
// Every change here runs in the order: the appliance accepts it, the registry commits it, the
// caller is told. A failed commit puts the appliance back.
//
// Changes come from the worker thread only; list(), show() and counts() from any thread.
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
  // All outlive this. `notify` is called from the worker thread.
  Tenants(Registry& registry, Appliance& appliance, const Clock& clock, Notify notify)
      : registry_(registry), appliance_(appliance), clock_(clock), notify_(std::move(notify)) {}

  // The rows, as tenants that are loading; the appliance is told to expect them. Before any other
  // call, on any thread.
  void list_as_loading(const std::vector<TenantRecord>& records);
  // Admits each; one that cannot be is "failed" from then on, with the reason. Ends early, with the
  // rest still loading, after cancel().
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
  // {"serving":n,"paused":n,"loading":n,"failed":n}, and the failed ones with their messages.
  nlohmann::json counts() const;
  nlohmann::json failures() const;

 private:
  enum class Condition : uint8_t { kLoading, kAdmitted, kFailed };
  struct Entry {
    TenantRecord record;
    AdmittedModel model;  // kAdmitted
    Condition condition = Condition::kLoading;
    std::string message;  // kFailed: why
  };

  Result<Entry> find(const TenantRef& ref) const;  // a copy
  void put(Entry entry);
  void erase(uint32_t id);
  // Brings `next` into the appliance and the registry in place of `old`.
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
