// Slots whose weights of a GEMM are the same bytes, bias included: their rows can run in one GEMM.
//
// Each slot has a number per GEMM weight. Equal weights have equal numbers, whether or not they
// share memory. Slots also have an order: neighbours have as many equal weights as possible, so
// that their rows are adjacent in a batch.
//
// One thread at a time adds and removes slots. Launches read the numbers of slots that they name,
// which nobody changes meanwhile. Any thread may read the order, which changes when slots come and
// go.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "model/slot_numbers.h"
#include "model/weight_contents.h"
#include "model/weight_kind.h"

namespace itif::model {

class EqualWeights {
 public:
  EqualWeights(std::span<const WeightKind> kinds, uint32_t max_slots);

  // Numbers the weights of a slot, and puts it next to the slots that it has most in common with.
  // `contents`: by slot; empty: equal to no other. O(slots · kinds). REQUIRES: the slot is not
  // added; no launch names it.
  void add(uint32_t slot, std::span<const WeightContents> contents);
  // REQUIRES: the slot is added; no launch names it.
  void remove(uint32_t slot);

  // By kind: the numbers by slot; nullptr: the kind is no weight of a GEMM. Valid as long as this.
  std::span<const uint32_t* const> numbers() const { return numbers_of_; }
  // Place of an added slot among all of them. Slots with nothing in common are in ascending order.
  uint32_t order_of(uint32_t slot) const noexcept {
    return order_of_[slot].load(std::memory_order_relaxed);
  }

 private:
  struct Gemm {
    size_t kind = 0;
    bool has_bias = false;    // the next kind's
    uint64_t num_values = 0;  // its cost in a batch
    SlotNumbers numbers;
  };
  int64_t common_values(uint32_t slot, uint32_t other) const;
  void publish_order() noexcept;

  std::vector<Gemm> gemms_;
  std::vector<const uint32_t*> numbers_of_;  // by kind
  std::vector<uint32_t> order_;              // added slots
  std::vector<std::atomic<uint32_t>> order_of_;
};

}  // namespace itif::model
