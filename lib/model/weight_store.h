// The weights of all tenants of a group, concatenated per weight kind: slot s of each slab holds
// one model's weights (ITIF, section 3.2, equation 3.1). Operators take the slab and each row's
// slot; ITIF calls this weights rotation.
//
// Weights are stored once per content. Tenants whose models have the same bytes in every kind hold
// one slot together. Slots whose models have the same bytes in a slab share its memory if the
// device can. The last holder frees it. (GSLICE, section 3.3.3, shares parameters of instances of
// one model.)
//
// A backbone family defines its weight kinds (WeightKind); the store knows nothing else of the
// family. Matrices are stored in the device's packed layout, tables in its activation type, and
// vectors in f32. Vectors are short and share one slab.
//
// Threads: any. Several threads load models at the same time. A model that may share weights with
// one that another thread loads waits for the end of that load (match()). The slabs' addresses do
// not change. slab(), view() and order_of() take no lock, so the executor serves the other slots
// meanwhile.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/checkpoint.h"
#include "model/equal_weights.h"
#include "model/weight_contents.h"
#include "model/weight_kind.h"

namespace itif::model {

// Bytes from one packed weight to the next in a sequence of one shape.
Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape);
// Packs a matrix [num_gemms · gemm.n, gemm.k] from views that fill it from the top down. REQUIRES:
// no view belongs to two GEMMs. Errors: those of Device::pack.
Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target);

// The slabs by weight kind, as a forward pass takes them.
struct WeightView {
  std::span<const kernels::Slab> slabs;
  // By kind: EqualWeights::numbers(). Empty: not known.
  std::span<const uint32_t* const> numbers = {};
  const kernels::Slab& operator[](size_t kind) const { return slabs[kind]; }
};

class WeightStore {
 public:
  using OnKind = std::function<void(size_t kind)>;  // called before each kind; may be null

  // Reserves addresses for max_slots tenants of these kinds; memory is committed slot by slot.
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<WeightStore>> create(device::Device& device,
                                                     std::vector<WeightKind> kinds,
                                                     uint32_t max_slots);

  // A model that is being added, and the slots that it may share. Match holds it.
  struct Claim {
    WeightContents contents = {};      // the beginnings
    std::vector<uint32_t> slots = {};  // held until the claim ends
  };
  // The weights of a model that the store holds already.
  struct Match {
    std::optional<uint32_t> slot;               // a slot that holds all of them
    std::vector<std::optional<uint32_t>> same;  // by slab: a slot to share its memory with
    uint64_t new_bytes = 0;                     // device memory that add() takes
    WeightContents contents;                    // empty: the model was not compared
    // Another load, of weights that begin as this model's, has ended meanwhile. There is no match:
    // call match() again.
    bool has_waited = false;
    std::shared_ptr<const Claim> claim;  // keeps the slots above until the last copy of it ends
  };
  // Compares a model with those in the store. Reads the beginning of each tensor, and all of those
  // that begin as another model's. Other models that may share weights with it then wait for the
  // end of the claim: keep it until the model is added. `kinds`: as load()'s. Errors: those of
  // Checkpoint::scan.
  Result<Match> match(const std::vector<WeightKind>& kinds, const Checkpoint& checkpoint,
                      const OnKind& on_kind);
  // Returns a match with nothing: add() then takes memory for all weights.
  Match no_match() const;
  // Returns a match with the weights of a slot, which has a holder.
  Match match_slot(uint32_t slot);

  // Returns the host memory that add() takes while it loads: at most one kind's tensors as in the
  // checkpoint, and the converted copy that is packed.
  uint64_t loading_bytes(const Match& match, const std::vector<WeightKind>& kinds,
                         const Checkpoint& checkpoint) const;

  // Returns a slot that holds the model's weights: that of the match with one more holder, or a
  // free one, loaded as far as it does not share. Calls on_kind only after it has taken the memory.
  // Changes nothing on error. Errors: kResourceExhausted (no free slot, no memory), those of
  // load(), kCorrupt (a tensor has changed since the match).
  Result<uint32_t> add(const Match& match, const std::vector<WeightKind>& kinds,
                       const Checkpoint& checkpoint, const OnKind& on_kind);

  // Commits a free slot for weights that the caller writes, or holds nothing. No model shares it
  // before load(). Errors: kResourceExhausted: no free slot, or no memory.
  Result<uint32_t> acquire();
  // Fills an acquired slot from a checkpoint. `kinds` are the model's own kinds. They equal the
  // store's, except that tables, matrices of one source and vectors may have fewer rows. Errors:
  // kInvalidArgument, kCorrupt (tensors; also a weight that is infinite in the device's types); the
  // slot stays acquired.
  Status load(uint32_t slot, const std::vector<WeightKind>& kinds, const Checkpoint& checkpoint,
              const OnKind& on_kind);
  // Takes a holder from the slot; the last one frees it, and the memory that no other slot shares.
  // REQUIRES: the slot has a holder, and after the last one no launch uses it.
  void release(uint32_t slot);

  // The slab of a kind, for all slots.
  kernels::Slab slab(size_t kind) const { return slabs_[kind]; }
  WeightView view() const { return {slabs_, equal_.numbers()}; }
  // Any thread. REQUIRES: the slot has a holder.
  uint32_t order_of(uint32_t slot) const noexcept { return equal_.order_of(slot); }
  const std::vector<WeightKind>& kinds() const { return kinds_; }
  // Device memory of one committed slot that shares nothing.
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Device memory of all slots; shared memory counts once.
  uint64_t used_bytes() const;
  uint32_t num_holders(uint32_t slot) const;

 private:
  WeightStore(device::Device& device, std::vector<WeightKind> kinds, uint32_t max_slots)
      : device_(device), kinds_(std::move(kinds)), equal_(kinds_, max_slots) {}
  bool is_bias(size_t kind) const { return kind > 0 && has_bias(kinds_[kind - 1]); }
  // Returns true if a weight of the kind counts for the contents of a slab's memory.
  bool counts(size_t kind, size_t slab) const;
  // Returns true if models whose contents begin like this may share memory.
  bool may_share(const WeightContents& a, const WeightContents& b) const;
  std::shared_ptr<const Claim> make_claim(Claim claim);  // REQUIRES: mutex_ is held
  // The functions below: REQUIRE mutex_. Returns true if the slot's memory in a slab holds these
  // contents.
  bool holds(uint32_t slot, size_t slab, const WeightContents& contents) const;
  // Commits or shares a free slot's memory, or holds nothing.
  Result<uint32_t> take(const Match& match);
  void release_locked(uint32_t slot);
  // Loads what the slot does not share. Without mutex_.
  Status fill(uint32_t slot, const Match& match, const std::vector<WeightKind>& kinds,
              const Checkpoint& checkpoint, const OnKind& on_kind);
  struct Tensors;
  Result<Tensors> read(size_t kind, const WeightKind& own, const Checkpoint& checkpoint) const;
  Status store(uint32_t slot, size_t kind, const WeightKind& own, Tensors& tensors, bool packs_bias,
               bool stores_rows);

  // The members up to slot_bytes_ do not change after create().
  device::Device& device_;
  const ContentKey key_;
  std::vector<WeightKind> kinds_;
  std::vector<size_t> memory_of_;     // by kind: index into memory_
  std::vector<kernels::Slab> slabs_;  // by kind
  uint64_t slot_bytes_ = 0;
  // Guards the members below. Held while memory is taken or freed, but not while files are read.
  mutable std::mutex mutex_;
  std::condition_variable claim_ended_;
  std::vector<std::unique_ptr<device::SlabMemory>> memory_;  // and the slots of each
  std::vector<uint32_t> num_holders_;                        // by slot
  std::vector<WeightContents> contents_;                     // by slot; empty: unknown
  std::vector<const Claim*> claims_;                         // of loads that compare or load
  // Knows the slots that have holders. Its numbers and order are also read without the lock.
  EqualWeights equal_;
};

}  // namespace itif::model
