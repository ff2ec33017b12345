#include "runtime/admission.h"

#include <algorithm>

#include "base/check.h"

namespace itif::runtime {

using wire::StatusCode;

Admission::Admission(const Group& group, const Clock& clock, const ExecutorOptions& options,
                     sched::BatchPolicy& policy, const InputOptions& inputs,
                     size_t num_out_of_queue)
    : group_(group),
      clock_(clock),
      max_wait_ns_(options.max_wait_ns),
      policy_(&policy),
      inputs_(inputs) {
  refused_.reserve(size_t{options.queue.max_requests} + RequestExecutor::kMaxIntake +
                   num_out_of_queue);
}

std::optional<Refusal> refusal_of(const Error& error) noexcept {
  switch (error.code) {
    case Code::kResourceExhausted:
      return Refusal{StatusCode::kOverloaded, "the device has no memory for the batch"};
    case Code::kUnsupported:
      return Refusal{StatusCode::kInternal, "the device's library refused to compute the batch"};
    default: return std::nullopt;
  }
}

const model::TenantModel* Admission::find_model(request::Request* request) noexcept {
  request->prepared = 0;
  if (request::has_expired(*request)) {
    give_back(request);
    return nullptr;
  }
  if (device_failed_) {
    refuse(request, kDeviceFailure);
    return nullptr;
  }
  const model::TenantModel* model = group_.model(request->slot);
  if (model == nullptr)
    refuse(request, {StatusCode::kNotAdmitted, "the tenant's model is not loaded"});
  return model;
}

bool Admission::may_wait(request::Request* request, double wait_ns) noexcept {
  const bool too_long = max_wait_ns_ != 0 && wait_ns > static_cast<double>(max_wait_ns_);
  // Not if nothing is ahead: a wrong estimate is corrected only by batches that run.
  const bool too_late =
      request->deadline_ns != 0 && wait_ns > 0 &&
      static_cast<double>(clock_.now_ns()) + wait_ns >= static_cast<double>(request->deadline_ns);
  if (!too_long && !too_late && policy_->queue().has_room(request->slot)) return true;
  // Half the backlog should be served by then.
  ask_again_in(request, wait_ns / 2);
  refuse(request, {StatusCode::kOverloaded,
                   too_long   ? "the tenant's requests wait longer than the group allows"
                   : too_late ? "the tenant's requests wait longer than the deadline allows"
                              : "the group's queue, or the tenant's share of it, is full"});
  return false;
}

void Admission::ask_again_in(request::Request* request, double ns) noexcept {
  if (request::take(*request))
    request->retry_after_us = static_cast<uint32_t>(std::clamp(ns / 1000, 1000.0, 10e6));
}

bool Admission::prepare(request::Request* request, const model::TenantModel& model) noexcept {
  const Refusal why = inputs_.prepare(*request, model);
  if (why) refuse(request, why);
  return !why;
}

void Admission::push(request::Request* request, const sched::BatchCosts& costs) noexcept {
  request->queued_ns = clock_.now_ns();
  CHECK(policy_->push(request, request->queued_ns, costs));
}

void Admission::refuse(request::Request* request, const Refusal& why) noexcept {
  if (request::take(*request)) {
    request->status = why.status;
    request->detail = why.detail;
    request->done_ns = clock_.now_ns();
  }
  give_back(request);
}

void Admission::give_back(request::Request* request) noexcept {
  inputs_.release(*request);
  refused_.push_back(request);
}

bool Admission::refuse(std::span<const sched::Refused> late) noexcept {
  bool by_estimate = false;
  for (const sched::Refused& one : late) {
    refuse_late(one);
    by_estimate |= one.why == sched::DeadlineMiss::kTooSoon;
  }
  return by_estimate;
}

void Admission::refuse_late(const sched::Refused& late) noexcept {
  switch (late.why) {
    case sched::DeadlineMiss::kPassed:
      return refuse(late.request,
                    {StatusCode::kDeadlineQueue, "the deadline passed in the group's queue"});
    case sched::DeadlineMiss::kTooSoon:
      return refuse(late.request, {StatusCode::kDeadlineLaunch,
                                   "the deadline would pass before the request could be computed"});
    case sched::DeadlineMiss::kWaitedTooLong:
      ask_again_in(late.request, static_cast<double>(max_wait_ns_) / 2);
      return refuse(late.request, {StatusCode::kOverloaded,
                                   "the request has waited longer than the group allows"});
  }
}

void Admission::fail_device() noexcept {
  device_failed_ = true;
  while (request::Request* request = policy_->pop()) refuse(request, kDeviceFailure);
}

size_t Admission::complete_refused(CompletionSink& sink) noexcept {
  const size_t count = refused_.size();
  if (count > 0) sink.complete(refused_);
  refused_.clear();
  return count;
}

}  // namespace itif::runtime
