// The slabs of a group's weights: one per table and per matrix, and one of all vectors, which are
// short. Says which weights make up an entry of a slab, so that entries of several groups can be
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/weight_contents.h"
#include "model/weight_kind.h"

namespace itif::model {

class WeightSlabs {
 public:
  // Reserves addresses for max_slots entries of each slab. Errors: kResourceExhausted.
  static Result<WeightSlabs> reserve(device::Device& device, std::vector<WeightKind> kinds,
                                     uint32_t max_slots);

  const std::vector<WeightKind>& kinds() const { return kinds_; }
  // By kind, as a forward pass takes them.
  std::span<const kernels::Slab> by_kind() const { return by_kind_; }
  bool is_bias(size_t kind) const { return kind > 0 && has_bias(kinds_[kind - 1]); }
  // Returns true if the matrix before a bias holds a copy of it (Device::packs_bias).
  bool is_packed_bias(size_t kind) const { return is_packed_bias_[kind]; }
  uint64_t slot_bytes() const { return slot_bytes_; }  // of one entry of each slab

  size_t num_slabs() const { return memory_.size(); }
  device::SlabMemory& memory(size_t slab) const { return *memory_[slab]; }
  uint64_t entry_bytes(size_t slab) const { return memory_[slab]->slab().stride_bytes; }
  size_t slab_of(size_t kind) const { return slab_of_[kind]; }
  // Returns true if a weight of the kind counts for the contents of a slab's entries. A bias also
  // counts for the matrix that holds a copy of it.
  bool counts(size_t kind, size_t slab) const {
    return slab_of_[kind] == slab || (is_packed_bias(kind) && slab_of_[kind - 1] == slab);
  }
  // The content of a slab's entry that holds a model's weights.
  EntryBeginning beginning(size_t slab, const WeightContents& contents) const;
  EntryContent content(size_t slab, const WeightContents& contents) const;

 private:
  WeightSlabs() = default;
  std::vector<uint64_t> layout_of(size_t slab) const;

  std::vector<WeightKind> kinds_;
  std::vector<kernels::Slab> by_kind_;
  std::vector<size_t> slab_of_;       // by kind
  std::vector<bool> is_packed_bias_;  // by kind
  std::vector<std::unique_ptr<device::SlabMemory>> memory_;
  std::vector<std::vector<uint64_t>> layouts_;  // by slab: EntryBeginning::layout
  uint64_t slot_bytes_ = 0;
};

}  // namespace itif::model
