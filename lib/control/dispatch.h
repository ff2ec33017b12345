// Runs operations: the quick ones for the I/O thread, the others for the worker thread. Knows
// nothing of sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "control/groups.h"
#include "control/operation.h"
#include "control/tenants.h"
#include "control/worker.h"

namespace itif::control {

constexpr uint64_t kDefaultDrainNs = 10'000'000'000;

class Dispatcher {
 public:
  // All outlive this; `notify` may be called from any thread.
  Dispatcher(Registry& registry, Appliance& appliance, const Clock& clock, Notify notify,
             std::string events_endpoint);

  // The registry's rows; they count as loading until restored. Before any other call, on any thread.
  void list_as_loading(const std::vector<TenantRecord>& records);
  void restore();  // worker thread
  // For a shutdown: what runs ends early. Any thread.
  void cancel();

  // I/O thread. Never blocks for long.
  Result<nlohmann::json> answer(const QuickOperation& op, const WorkerStatus& worker) const;
  // Worker thread.
  Result<nlohmann::json> run(const WorkerOperation& op, const Progress& progress);
  void leave_failed_device();                   // worker thread
  Result<uint64_t> drain(uint64_t timeout_ns);  // any thread

  // The appliance's figures, for subscribers. I/O thread.
  Result<nlohmann::json> stats() const;

 private:
  Result<nlohmann::json> run_one(const Drain& op, const Progress& progress);
  Result<nlohmann::json> run_one(const Undrain& op, const Progress& progress);
  Result<nlohmann::json> run_one(const ResetDevice& op, const Progress& progress);
  Result<nlohmann::json> run_one(const UpdateGroup& op, const Progress& progress) {
    return groups_.run(op, progress);
  }
  Result<nlohmann::json> run_one(const RunProfile& op, const Progress& progress) {
    return groups_.run(op, progress);
  }
  template <class Op>
  Result<nlohmann::json> run_one(const Op& op, const Progress& progress) {
    return tenants_.run(op, progress);
  }
  nlohmann::json health(const WorkerStatus& worker) const;

  Appliance& appliance_;
  const Clock& clock_;
  Notify notify_;
  std::string events_endpoint_;
  Groups groups_;
  Tenants tenants_;
  uint64_t started_unix_ns_;
  std::atomic<bool> restoring_{true};
  std::atomic<bool> draining_{false};
};

}  // namespace itif::control
