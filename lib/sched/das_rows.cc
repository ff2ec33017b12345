#include "sched/das_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace itif::sched {
namespace {

double utility(uint32_t weight, uint32_t num_tokens) noexcept {
  return static_cast<double>(weight) / std::max(1u, num_tokens);
}

}  // namespace

DasRows::DasRows(const PolicyOptions& options)
    : IndexedOrder(options, options.spec.weighted ? tenant::kMaxWeight + 1 : 1),
      spec_(options.spec),
      shares_(options.queue.max_slots) {
  prefix_.reserve(options.limits.max_requests);
}

void DasRows::pushed(const GroupQueue& queue, request::Request& request) noexcept {
  IndexedOrder::pushed(queue, request);
  if (queue.of_tenant(request.slot).num_requests == 1) shares_.reset(request.slot);
}

void DasRows::charge(const request::Request& request) noexcept {
  if (spec_.fair) shares_.charge(request);
}

void DasRows::put_back(const GroupQueue& queue, request::Request& request) noexcept {
  IndexedOrder::pushed(queue, request);
  if (spec_.fair) shares_.refund(request);
}

// Fills one row after another in the batch's order. This takes no more rows than before: the first
// k new rows hold at least the requests of the first k old ones.
void DasRows::close_gaps(const BatchLimits& limits, Choice& choice) noexcept {
  uint32_t row = 0;
  uint64_t row_tokens = 0;
  for (request::Request* request : choice.batch) {
    if (row_tokens > 0 && row_tokens + request->num_tokens > limits.rows.tokens) {
      ++row;
      row_tokens = 0;
    }
    row_tokens += request->num_tokens;
    request->row = row;
  }
}

double DasRows::utility_of(const request::Request& request) const noexcept {
  return utility(spec_.weighted ? tree_of(request) : 1, request.num_tokens);
}

uint32_t DasRows::max_tokens_of(uint32_t tree, double min_utility) const noexcept {
  const uint32_t weight = spec_.weighted ? tree : 1;
  const double longest = std::floor(weight / min_utility);
  if (longest >= WaitingIndex::kAnyLength) return WaitingIndex::kAnyLength;
  auto num_tokens = static_cast<uint32_t>(longest);
  // The division above may have been rounded across a whole number.
  while (num_tokens > 0 && utility(weight, num_tokens) < min_utility) --num_tokens;
  while (utility(weight, num_tokens + 1) >= min_utility) ++num_tokens;
  return num_tokens;
}

request::Request* DasRows::most_useful(const WaitingIndex& index,
                                       uint32_t max_tokens) const noexcept {
  request::Request* best = nullptr;
  for (const uint32_t tree : index.active_trees()) {
    request::Request* shortest = index.shortest(tree);
    if (shortest->num_tokens > max_tokens) continue;
    const double gain = best == nullptr ? 1 : utility_of(*shortest) - utility_of(*best);
    if (gain > 0 || (gain == 0 && index.is_earlier(*shortest, *best))) best = shortest;
  }
  return best;
}

request::Request* DasRows::most_urgent(const WaitingIndex& index, uint32_t max_tokens,
                                       double min_utility) const noexcept {
  request::Request* best = nullptr;
  for (const uint32_t tree : index.active_trees()) {
    const uint32_t longest = std::min(max_tokens, max_tokens_of(tree, min_utility));
    request::Request* earliest = index.earliest(longest, tree);
    if (earliest == nullptr) continue;
    if (best == nullptr || index.is_earlier(*earliest, *best)) best = earliest;
  }
  return best;
}

void DasRows::fill_rows(IndexFill& fill) noexcept {
  longest_dominant_tokens_ = 0;
  if (spec_.fair) shares_.begin(fill.queue(), fill.limits());
  do {
    if (spec_.fair) take_owed(fill);
    fill_row(fill);
  } while (fill.rows().requests_left() > 0 && fill.rows().next_row());
  if (!fill.batch_is_empty()) return;
  const auto any = [&] { return most_urgent(fill.index(), WaitingIndex::kAnyLength, 0); };
  if (request::Request* alone = fill.in_time(any)) {
    longest_dominant_tokens_ = alone->num_tokens;
    fill.take(alone);
  }
}

void DasRows::charge_shares(const IndexFill& fill) noexcept {
  if (!spec_.fair) return;
  for (const request::Request* request : fill.own_batch()) shares_.charge(*request);
  shares_.end();
}

// Takes the oldest requests of the tenants that are behind their shares, while they fit the row.
void DasRows::take_owed(IndexFill& fill) noexcept {
  for (FairShares::Tenant& tenant : shares_.tenants()) {
    request::Request* oldest = fill.queue().of_tenant(tenant.slot).head;
    const auto next = [&] {
      while (oldest != nullptr && !fill.index().is_attached(*oldest)) oldest = oldest->next;
      return oldest == nullptr ? nullptr : std::exchange(oldest, oldest->next);
    };
    while (tenant.owed_tokens > 0 && fill.rows().requests_left() > 0) {
      request::Request* request = fill.in_time(next);
      if (request == nullptr) break;
      if (request->num_tokens > fill.rows().room() && !fill.batch_is_empty()) break;
      tenant.owed_tokens -= request->num_tokens;
      longest_dominant_tokens_ = std::max(longest_dominant_tokens_, request->num_tokens);
      fill.take(request);
    }
  }
}

void DasRows::fill_row(IndexFill& fill) noexcept {
  const WaitingIndex& index = fill.index();
  if (index.num_tokens() <= fill.rows().room() &&
      index.num_requests() <= fill.rows().requests_left())
    return take_all(fill);
  const auto take_each = [&](const auto& query) {
    while (fill.rows().requests_left() > 0) {
      request::Request* request = fill.in_time(query);
      if (request == nullptr) return;
      fill.take(request);
    }
  };
  const double mean_utility = take_dominant(fill);
  if (mean_utility == 0) return;  // no request fits
  const double min_utility = (1 - spec_.eta) * mean_utility;
  take_each([&] { return most_urgent(index, fill.rows().room(), min_utility); });
  take_each([&] { return most_useful(index, fill.rows().room()); });
}

void DasRows::take_all(IndexFill& fill) noexcept {
  const auto next = [&] { return most_useful(fill.index(), WaitingIndex::kAnyLength); };
  while (request::Request* request = fill.in_time(next)) {
    longest_dominant_tokens_ = std::max(longest_dominant_tokens_, request->num_tokens);
    fill.take(request);
  }
}

// Takes the utility-dominant set. Returns its mean utility; 0: no request fits the row.
double DasRows::take_dominant(IndexFill& fill) noexcept {
  WaitingIndex& index = fill.index();
  const uint32_t room = fill.rows().room();
  const auto next = [&] { return most_useful(index, room); };
  prefix_.clear();
  uint32_t left = room;
  while (prefix_.size() < fill.rows().requests_left()) {
    request::Request* request = fill.in_time(next);
    if (request == nullptr || request->num_tokens > left) break;
    left -= request->num_tokens;
    index.detach(*request);
    prefix_.push_back(request);
  }
  for (const request::Request* request : prefix_) index.attach(*request);
  const auto num_fitting = static_cast<double>(prefix_.size());
  auto num_dominant = static_cast<size_t>(std::ceil(spec_.eta * num_fitting));
  // The product may have been rounded across a whole number.
  if (num_dominant > 0 && static_cast<double>(num_dominant - 1) / num_fitting >= spec_.eta)
    --num_dominant;
  prefix_.resize(num_dominant);
  double sum = 0;
  for (request::Request* request : prefix_) {
    sum += utility_of(*request);
    longest_dominant_tokens_ = std::max(longest_dominant_tokens_, request->num_tokens);
    fill.take(request);
  }
  return prefix_.empty() ? 0 : sum / static_cast<double>(prefix_.size());
}

}  // namespace itif::sched
