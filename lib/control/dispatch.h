// Runs operations: the quick ones on the I/O thread, the others on the job thread. Knows no
// sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "control/documents.h"
#include "control/groups.h"
#include "control/handover.h"
#include "control/job_thread.h"
#include "control/operation.h"
#include "control/tenants.h"

namespace itif::control {

constexpr uint64_t kDefaultDrainNs = 10'000'000'000;

class Dispatcher {
 public:
  // All must outlive this object; `notify` may be called from any thread.
  Dispatcher(Registry& registry, Appliance& appliance, const Documents& documents,
             const Clock& clock, Notify notify, std::string events_endpoint);

  // Sets the object that runs handovers; without it they are refused. Called before the first
  // operation.
  void use_handover(Handover& handover) { handover_ = &handover; }

  // Admits the tenants that the appliance lists as loading. Worker thread, before other operations.
  void restore();
  void save_notes() { tenants_.save_notes(); }  // worker thread
  // Ends running operations early, for a shutdown. Any thread.
  void cancel();

  // I/O thread. Does not block for long.
  Result<nlohmann::json> answer(const QuickOperation& op, const JobThreadStatus& worker) const;
  // Worker thread.
  Result<nlohmann::json> run(const WorkerOperation& op, const Progress& progress);
  void leave_failed_device();           // job thread
  void look_after();                    // job thread, while it is idle
  uint64_t drain(uint64_t timeout_ns);  // any thread; returns the requests in flight

  // Returns the appliance's statistics, for subscribers. I/O thread.
  Result<nlohmann::json> stats() const;

 private:
  Result<nlohmann::json> run_one(const Drain& op, const Progress& progress);
  Result<nlohmann::json> run_one(const Undrain& op, const Progress& progress);
  Result<nlohmann::json> run_one(const HandOver& op, const Progress& progress);
  Result<nlohmann::json> run_one(const ResetDevice& op, const Progress& progress);
  Result<nlohmann::json> run_one(const UpdateGroup& op, const Progress& progress) {
    return groups_.run(op, progress);
  }
  Result<nlohmann::json> run_one(const MeasureKnee& op, const Progress& progress) {
    return groups_.run(op, progress);
  }
  Result<nlohmann::json> run_one(const RunProfile& op, const Progress& progress) {
    return groups_.run(op, progress);
  }
  template <class Op>
  Result<nlohmann::json> run_one(const Op& op, const Progress& progress) {
    return tenants_.run(op, progress);
  }
  nlohmann::json health(const JobThreadStatus& worker) const;
  void check_registry();

  Registry& registry_;
  Appliance& appliance_;
  const Documents& documents_;
  const Clock& clock_;
  Notify notify_;
  std::string events_endpoint_;
  Groups groups_;
  Tenants tenants_;
  Handover* handover_ = nullptr;
  uint64_t started_unix_ns_;
  std::atomic<bool> restoring_{true};
  std::atomic<bool> draining_{false};
  mutable std::mutex registry_mutex_;
  std::string registry_problem_;  // guarded by registry_mutex_; empty: none
};

}  // namespace itif::control
