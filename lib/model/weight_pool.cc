#include "model/weight_pool.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace itif::model {
namespace {

bool have_common(const WeightPool::Claim& a, const WeightPool::Claim& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) return true;
    if (*i < *j)
      ++i;
    else
      ++j;
  }
  return false;
}

}  // namespace

std::vector<std::shared_ptr<WeightPool::Entry>> WeightPool::find(
    const EntryBeginning& beginning) const {
  std::vector<std::shared_ptr<Entry>> found;
  const auto [first, last] = entries_.equal_range(beginning);
  for (auto it = first; it != last; ++it) found.push_back(it->second);
  return found;
}

void WeightPool::publish(const std::shared_ptr<Entry>& entry, EntryContent content) {
  CHECK(!entry->holders.empty() && entry->content == EntryContent());
  entry->content = std::move(content);
  entries_.emplace(entry->content.beginning, entry);
}

void WeightPool::add_holder(const std::shared_ptr<Entry>& entry, Account& account) {
  if (entry->holders.empty()) {
    account += entry->bytes;
    // A load found it before its last holder left.
    if (entry->content != EntryContent()) entries_.emplace(entry->content.beginning, entry);
  }
  entry->holders.push_back(&account);
}

void WeightPool::remove_holder(const std::shared_ptr<Entry>& entry, Account& account) {
  std::vector<Account*>& holders = entry->holders;
  // The store's latest slot: an earlier one keeps the entry in the store's account.
  const auto latest = std::find(holders.rbegin(), holders.rend(), &account);
  CHECK(latest != holders.rend());
  const bool counted = std::next(latest) == holders.rend();
  holders.erase(std::next(latest).base());
  if (!counted) return;
  account -= entry->bytes;
  if (!holders.empty()) {
    *holders.front() += entry->bytes;
    return;
  }
  const auto [first, last] = entries_.equal_range(entry->content.beginning);
  const auto it = std::find_if(first, last, [&](const auto& one) { return one.second == entry; });
  if (it != last) entries_.erase(it);
}

bool WeightPool::wait_for_claims(std::unique_lock<std::mutex>& lock, const Claim& claim) {
  const auto is_rival = [&](const Claim* other) { return have_common(*other, claim); };
  if (std::ranges::none_of(claims_, is_rival)) return false;
  ++num_waiting_;
  claim_ended_.wait(lock, [&] { return std::ranges::none_of(claims_, is_rival); });
  --num_waiting_;
  return true;
}

void WeightPool::end_claim(const Claim& claim) {
  std::erase(claims_, &claim);
  claim_ended_.notify_all();
}

}  // namespace itif::model
