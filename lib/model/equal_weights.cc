#include "model/equal_weights.h"

#include <algorithm>

namespace itif::model {

EqualWeights::EqualWeights(std::span<const WeightKind> kinds, uint32_t max_slots)
    : numbers_of_(kinds.size()), order_of_(max_slots) {
  order_.reserve(max_slots);
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (kinds[kind].storage != Storage::kMatrix) continue;
    const device::GemmShape& shape = kinds[kind].gemm;
    gemms_.push_back({.kind = kind,
                      .has_bias = has_bias(kinds[kind]),
                      .num_values = uint64_t{shape.n} * shape.k * kinds[kind].num_gemms,
                      .numbers = SlotNumbers(max_slots)});
    numbers_of_[kind] = gemms_.back().numbers.data();
  }
}

void EqualWeights::add(uint32_t slot, std::span<const WeightContents> contents) {
  const WeightContents& own = contents[slot];
  for (Gemm& gemm : gemms_) {
    const auto is_equal = [&](uint32_t other) {
      const WeightContents& held = contents[other];
      return !own.empty() && !held.empty() && held[gemm.kind] == own[gemm.kind] &&
             (!gemm.has_bias || held[gemm.kind + 1] == own[gemm.kind + 1]);
    };
    const auto equal = std::ranges::find_if(order_, is_equal);
    if (equal == order_.end())
      gemm.numbers.take(slot);
    else
      gemm.numbers.share(slot, *equal);
  }
  // The place where neighbours gain most in common. Ties go to the place that keeps slots
  // ascending: equal distances between slots allow strided calls.
  int64_t most = -1;
  bool is_ascending = false;
  size_t place = 0;
  for (size_t i = 0; i <= order_.size(); ++i) {
    const bool has_last = i > 0, has_next = i < order_.size();
    int64_t gained = 0;
    if (has_last) gained += common_values(slot, order_[i - 1]);
    if (has_next) gained += common_values(slot, order_[i]);
    if (has_last && has_next) gained -= common_values(order_[i - 1], order_[i]);
    const bool keeps = (!has_last || order_[i - 1] < slot) && (!has_next || order_[i] > slot);
    if (gained < most || (gained == most && is_ascending && !keeps)) continue;
    most = gained;
    is_ascending = keeps;
    place = i;
  }
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), slot);
  publish_order();
}

void EqualWeights::remove(uint32_t slot) {
  for (Gemm& gemm : gemms_) gemm.numbers.release(slot);
  std::erase(order_, slot);
  publish_order();
}

int64_t EqualWeights::common_values(uint32_t slot, uint32_t other) const {
  uint64_t common = 0;
  for (const Gemm& gemm : gemms_) {
    const uint32_t* numbers = gemm.numbers.data();
    if (numbers[slot] == numbers[other]) common += gemm.num_values;
  }
  return static_cast<int64_t>(common);
}

void EqualWeights::publish_order() noexcept {
  for (uint32_t i = 0; i < order_.size(); ++i)
    order_of_[order_[i]].store(i, std::memory_order_relaxed);
}

}  // namespace itif::model
