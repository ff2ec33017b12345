// Numbers of slots: slots that share something have the same number, which is free once the last of
// them is released.
//
// Control's thread changes numbers. Launches read those of the slots that they name, which nobody
// changes meanwhile.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace itif::model {

class SlotNumbers {
 public:
  explicit SlotNumbers(uint32_t max_slots)
      : numbers_(max_slots), held_(max_slots, false), num_slots_(max_slots) {
    std::iota(numbers_.begin(), numbers_.end(), 0u);
  }

  // By slot; valid as long as this.
  const uint32_t* data() const { return numbers_.data(); }

  // Gives a slot a free number: its own if that is free. REQUIRES: the slot holds none.
  void take(uint32_t slot) {
    CHECK(slot < held_.size() && !held_[slot]);
    uint32_t number = slot;
    if (num_slots_[number] > 0)
      for (number = 0; num_slots_[number] > 0;) ++number;
    hold(slot, number);
  }
  // Gives a slot the number of another. REQUIRES: `slot` holds none, `with` holds one.
  void share(uint32_t slot, uint32_t with) {
    CHECK(slot < held_.size() && !held_[slot] && with < held_.size() && held_[with]);
    hold(slot, numbers_[with]);
  }
  void release(uint32_t slot) {
    CHECK(slot < held_.size() && held_[slot]);
    held_[slot] = false;
    --num_slots_[numbers_[slot]];
  }

 private:
  void hold(uint32_t slot, uint32_t number) {
    numbers_[slot] = number;
    held_[slot] = true;
    ++num_slots_[number];
  }

  std::vector<uint32_t> numbers_;    // by slot
  std::vector<bool> held_;           // by slot
  std::vector<uint32_t> num_slots_;  // by number: slots that hold it
};

}  // namespace itif::model
