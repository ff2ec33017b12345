// Admission of requests to a group's queue, for both kinds of executor: refuses a request that
// cannot run or would wait too long, and prepares and queues the others. Keeps the refused ones
// until they are handed back. A request that has expired (request.h) is handed back as it is.
//
// Owned by the executor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

// Why a batch's requests have no result, given the stream's error. nullopt: a device fault.
std::optional<Refusal> refusal_of(const Error& error) noexcept;

class Admission {
 public:
  // `group`, `clock` and `policy` outlive it. `num_out_of_queue`: the most requests that are
  // refused together after they have left the queue.
  Admission(const Group& group, const Clock& clock, const ExecutorOptions& options,
            sched::BatchPolicy& policy, const InputOptions& inputs, size_t num_out_of_queue = 0);

  // Returns the request's model. Returns nullptr if the request has expired, or is refused:
  // - the device has failed, or the model is not loaded;
  // - `wait_ns(model)`, the expected wait in ns, is too long or ends after the deadline;
  // - the group's queue, or the tenant's share of it, is full.
  // Reads no payload: a request of a flooding tenant must not cost the shared executor more.
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
  // Refuses requests that the policy has found too late. Returns true if one of them had not
  // passed its deadline, but would miss it.
  bool refuse(std::span<const sched::Refused> late) noexcept;
  // Takes a batch that the policy has chosen. Removes from it the requests that have expired
  // meanwhile, calls on_expired(const Request&) for each, and hands them back.
  template <class OnExpired>
  void take(std::vector<request::Request*>& batch, const OnExpired& on_expired) noexcept {
    std::erase_if(batch, [&](request::Request* request) {
      if (request::take(*request)) return false;
      on_expired(*request);
      give_back(request);
      return true;
    });
  }
  // Queues later requests in another policy, which outlives it or the next call.
  void use_policy(sched::BatchPolicy& policy) noexcept { policy_ = &policy; }
  // Refuses the requests of the queue, and all later ones.
  void fail_device() noexcept;
  bool device_failed() const noexcept { return device_failed_; }
  // Hands the refused and the expired requests back and returns how many they are.
  size_t complete_refused(CompletionSink& sink) noexcept;

  InputPreparation& inputs() noexcept { return inputs_; }

 private:
  // Sets the time to ask again, in the status of the refusal that follows.
  void ask_again_in(request::Request* request, double ns) noexcept;
  void refuse_late(const sched::Refused& late) noexcept;
  void give_back(request::Request* request) noexcept;
  const model::TenantModel* find_model(request::Request* request) noexcept;
  bool may_wait(request::Request* request, double wait_ns) noexcept;

  const Group& group_;
  const Clock& clock_;
  const uint64_t max_wait_ns_;
  sched::BatchPolicy* policy_;
  InputPreparation inputs_;
  std::vector<request::Request*> refused_;  // and expired: to be handed back
  bool device_failed_ = false;
};

}  // namespace itif::runtime
