// Admission of requests to a group's queue, for both kinds of executor: refuses a request that
// cannot run or would wait too long, and prepares and queues the others. Keeps the refused ones
// until they are handed back.
//
// Owned by the executor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "runtime/completion.h"
#include "runtime/group.h"
#include "runtime/input_preparation.h"
#include "runtime/request_executor.h"
#include "sched/batch_policy.h"

namespace itif::runtime {

inline constexpr Refusal kDeviceFailure = {wire::StatusCode::kDeviceFailed,
                                           "the group's device has failed"};

class Admission {
 public:
  // `group`, `clock` and `policy` outlive it. `num_out_of_queue`: the most requests that are
  // refused together after they have left the queue.
  Admission(const Group& group, const Clock& clock, const ExecutorOptions& options,
            sched::BatchPolicy& policy, const PreparationOptions& preparation,
            size_t num_out_of_queue = 0);

  // Returns the request's model; nullptr: the request is refused, because the device has failed,
  // the model is not loaded, or `wait_ns(model)`, its expected wait, is too long. Reads no payload:
  // a request of a flooding tenant must not cost the shared executor more than this.
  template <class WaitNs>
  const model::TenantModel* admit(request::Request* request, const WaitNs& wait_ns) noexcept {
    const model::TenantModel* model = find_model(request);
    return model != nullptr && may_wait(request, wait_ns(*model)) ? model : nullptr;
  }
  // Prepares the payload. Returns false if the request is refused.
  bool prepare(request::Request* request, const model::TenantModel& model) noexcept;
  // REQUIRES: admit() and prepare() have accepted the request.
  void push(request::Request* request, const sched::BatchCosts& costs) noexcept;

  void refuse(request::Request* request, const Refusal& why) noexcept;
  // Refuses a request that the policy has found too late.
  void refuse(const sched::Refused& late) noexcept;
  // Refuses the requests of the queue, and all later ones.
  void fail_device() noexcept;
  bool device_failed() const noexcept { return device_failed_; }
  // Hands the refused requests back and returns how many they are.
  size_t complete_refused(CompletionSink& sink) noexcept;

  InputPreparation& preparation() noexcept { return preparation_; }

 private:
  const model::TenantModel* find_model(request::Request* request) noexcept;
  bool may_wait(request::Request* request, double wait_ns) noexcept;

  const Group& group_;
  const Clock& clock_;
  const uint64_t max_wait_ns_;
  sched::BatchPolicy& policy_;
  InputPreparation preparation_;
  std::vector<request::Request*> refused_;
  bool device_failed_ = false;
};

}  // namespace itif::runtime
