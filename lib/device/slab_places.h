// The places in a slab's memory where its slots' entries are (kernels::Slab::places). Slots that
// share an entry have the same place, which is free once the last of them is released.
//
// Control's thread changes places. Launches read those of the slots that they name, which nobody
// changes meanwhile.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "base/check.h"

namespace itif::device {

class SlabPlaces {
 public:
  explicit SlabPlaces(uint32_t max_slots) : places_(max_slots), num_slots_(max_slots) {
    std::iota(places_.begin(), places_.end(), 0u);
    held_.resize(max_slots, false);
  }

  // By slot; valid as long as this.
  const uint32_t* data() const { return places_.data(); }
  bool holds(uint32_t slot) const { return held_[slot]; }
  // Places that a slot holds. Their number never exceeds that of such slots.
  uint32_t num_taken() const { return num_taken_; }

  // Gives a slot a free place: its own number if that is free. REQUIRES: the slot holds none.
  uint32_t take(uint32_t slot) {
    CHECK(slot < held_.size() && !held_[slot]);
    uint32_t place = slot;
    if (num_slots_[place] > 0)
      for (place = 0; num_slots_[place] > 0;) ++place;
    ++num_taken_;
    hold(slot, place);
    return place;
  }
  // Gives a slot the place of another. REQUIRES: `slot` holds none, `with` holds one.
  void share(uint32_t slot, uint32_t with) {
    CHECK(slot < held_.size() && !held_[slot] && with < held_.size() && held_[with]);
    hold(slot, places_[with]);
  }
  // Returns the slot's place if no other slot holds it any more.
  std::optional<uint32_t> release(uint32_t slot) {
    CHECK(slot < held_.size() && held_[slot]);
    held_[slot] = false;
    const uint32_t place = places_[slot];
    if (--num_slots_[place] > 0) return std::nullopt;
    --num_taken_;
    return place;
  }

 private:
  void hold(uint32_t slot, uint32_t place) {
    places_[slot] = place;
    held_[slot] = true;
    ++num_slots_[place];
  }

  std::vector<uint32_t> places_;     // by slot
  std::vector<bool> held_;           // by slot
  std::vector<uint32_t> num_slots_;  // by place: slots that hold it
  uint32_t num_taken_ = 0;
};

}  // namespace itif::device
