#include "sched/group_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/share.h"

namespace itif::sched {

GroupQueue::GroupQueue(const Limits& limits)
    : limits_(limits), tenants_(limits.max_slots), deadlines_(limits.max_requests) {
  active_.reserve(limits.max_slots);
}

bool GroupQueue::has_room(uint32_t slot) const noexcept {
  DCHECK(slot < tenants_.size());
  const uint32_t own = tenants_[slot].num_requests;
  return own < limits_.max_tenant_requests &&
         within_share(own, 1, num_requests_, limits_.max_requests);
}

void GroupQueue::append(request::Request* request) noexcept {
  TenantQueue& tenant = tenants_[request->slot];
  request->next = nullptr;
  request->previous = tenant.tail;
  (tenant.tail ? tenant.tail->next : tenant.head) = request;
  tenant.tail = request;
  if (tenant.active) active_weights_ -= tenant.settings.weight;
  tenant.settings = request->settings;
  active_weights_ += tenant.settings.weight;
  count(request);
  if (!std::exchange(tenant.active, true)) active_.push_back(request->slot);
}

void GroupQueue::put_back(request::Request* request) noexcept {
  TenantQueue& tenant = tenants_[request->slot];
  request->previous = nullptr;
  request->next = tenant.head;
  (tenant.head ? tenant.head->previous : tenant.tail) = request;
  tenant.head = request;
  count(request);
  if (std::exchange(tenant.active, true)) return;
  active_.insert(active_.begin(), request->slot);
  active_weights_ += tenant.settings.weight;
}

void GroupQueue::count(request::Request* request) noexcept {
  TenantQueue& tenant = tenants_[request->slot];
  ++tenant.num_requests;
  ++num_requests_;
  num_tokens_ += request->num_tokens;
  tenant.num_tokens += request->num_tokens;
  deadlines_.push(request);
}

request::Request* GroupQueue::pop(uint32_t slot) noexcept {
  request::Request* request = tenants_[slot].head;
  DCHECK(request != nullptr);
  remove(request);
  return request;
}

void GroupQueue::remove(request::Request* request) noexcept {
  TenantQueue& tenant = tenants_[request->slot];
  (request->previous ? request->previous->next : tenant.head) = request->next;
  (request->next ? request->next->previous : tenant.tail) = request->previous;
  if (tenant.head == nullptr) {
    tenant.active = false;
    active_.erase(std::find(active_.begin(), active_.end(), request->slot));
    active_weights_ -= tenant.settings.weight;
  }
  request->next = request->previous = nullptr;
  --tenant.num_requests;
  --num_requests_;
  num_tokens_ -= request->num_tokens;
  tenant.num_tokens -= request->num_tokens;
  deadlines_.remove(request);
}

void GroupQueue::rotate() noexcept {
  if (active_.size() > 1) std::rotate(active_.begin(), active_.begin() + 1, active_.end());
}

GroupQueue::Backlog GroupQueue::backlog_of(uint32_t slot) const noexcept {
  const TenantQueue& tenant = tenants_[slot];
  const double rounds = static_cast<double>(active_weights_) / std::max(1u, tenant.settings.weight);
  return {.num_requests = std::min(tenant.num_requests * rounds, 1.0 * num_requests_),
          .num_tokens = std::min(static_cast<double>(tenant.num_tokens) * rounds,
                                 static_cast<double>(num_tokens_))};
}

}  // namespace itif::sched
