// The weights of all tenants of a group, concatenated per weight kind: slot s of each slab holds
// one model's weights (ITIF, section 3.2, equation 3.1). Operators take the slab and each row's
// slot; ITIF calls this weights rotation.
//
// Weights are stored once per content (weight_pool.h). Tenants of a group whose models have the
// same bytes in every kind hold one slot together. Otherwise, slots whose models have the same
// bytes in a slab share its memory if the device can, also slots of other groups on that device.
// The last holder frees it. (GSLICE, section 3.3.3, shares parameters of instances of one model.)
//
// A backbone family defines its weight kinds (WeightKind); the store knows nothing else of the
// family. Matrices are stored in the device's packed layout, tables in its activation type, and
// vectors in f32. Vectors are short and share one slab.
//
// Threads: any. Several threads load models at the same time. A model that may share weights with
// one that another thread loads, into this or another store of the pool, waits for the end of that
// load (match()). The slabs' addresses do not change. slab(), view() and order_of() take no lock,
// so the executor serves the other slots meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/checkpoint.h"
#include "model/equal_weights.h"
#include "model/weight_contents.h"
#include "model/weight_kind.h"
#include "model/weight_pool.h"
#include "model/weight_slabs.h"

namespace itif::model {

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
  // `pool`: of the stores that share memory, all on `device`; outlives the store. Null: the store
  // has its own. Errors: kResourceExhausted.
  static Result<std::unique_ptr<WeightStore>> create(device::Device& device,
                                                     std::vector<WeightKind> kinds,
                                                     uint32_t max_slots,
                                                     WeightPool* pool = nullptr);
  ~WeightStore();  // REQUIRES: no claim of a Match is left
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  // A model that is being added. Match holds it.
  struct Claim {
    WeightPool::Claim beginnings = {};
    std::vector<uint32_t> slots = {};  // that may hold the same model; held until the claim ends
  };
  // The weights of a model that the store holds already.
  struct Match {
    std::optional<uint32_t> slot;  // a slot that holds all of them
    // By slab: an entry to share, of this or another store; null: none.
    std::vector<std::shared_ptr<WeightPool::Entry>> same;
    uint64_t new_bytes = 0;   // device memory that add() takes
    WeightContents contents;  // empty: the model was not compared
    // Another load, of weights that begin as this model's, has ended meanwhile. There is no match:
    // call match() again.
    bool has_waited = false;
    std::shared_ptr<const Claim> claim;  // keeps `slot` until the last copy of it ends
  };
  // Compares a model with those in the pool's stores. Reads the beginning of each tensor, and all
  // of those that begin as another model's. Other models that may share weights with it then wait
  // for the end of the claim: keep it until the model is added. `kinds`: as load()'s. Errors: those
  // of Checkpoint::scan.
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
  // Takes a holder from the slot; the last one frees it, and the memory that no other slot of any
  // store shares.
  // REQUIRES: the slot has a holder, and after the last one no launch uses it.
  void release(uint32_t slot);

  // The slab of a kind, for all slots.
  kernels::Slab slab(size_t kind) const { return slabs_.by_kind()[kind]; }
  WeightView view() const { return {slabs_.by_kind(), equal_.numbers()}; }
  // Any thread. REQUIRES: the slot has a holder.
  uint32_t order_of(uint32_t slot) const noexcept { return equal_.order_of(slot); }
  const std::vector<WeightKind>& kinds() const { return slabs_.kinds(); }
  WeightPool& pool() const { return pool_; }
  // Device memory of one committed slot that shares nothing.
  uint64_t slot_bytes() const { return slabs_.slot_bytes(); }
  // Device memory of all slots; shared memory counts once, in the store that has held it longest.
  // Takes no lock.
  uint64_t used_bytes() const { return used_bytes_; }
  uint32_t num_holders(uint32_t slot) const;

 private:
  WeightStore(device::Device& device, WeightSlabs slabs, uint32_t max_slots, WeightPool* pool);
  // Returns the claim of a load of these contents.
  WeightPool::Claim beginnings_of(const WeightContents& contents) const;
  std::shared_ptr<const Claim> make_claim(Claim claim);  // REQUIRES: the pool's mutex is held
  // The functions below: REQUIRE the pool's mutex. Commits or shares a free slot's memory, or holds
  // nothing.
  Result<uint32_t> take(const Match& match);
  void release_locked(uint32_t slot);
  void drop_entries(uint32_t slot);
  // Loads what the slot does not share. Without the mutex.
  Status fill(uint32_t slot, const Match& match, const std::vector<WeightKind>& kinds,
              const Checkpoint& checkpoint, const OnKind& on_kind);
  struct Tensors;
  Result<Tensors> read(size_t kind, const WeightKind& own, const Checkpoint& checkpoint) const;
  Status store(uint32_t slot, size_t kind, const WeightKind& own, Tensors& tensors, bool packs_bias,
               bool stores_rows);

  device::Device& device_;
  const std::unique_ptr<WeightPool> own_pool_;  // null: others use the pool, too
  WeightPool& pool_;
  // Its slots change with the pool's mutex held; the rest does not change.
  WeightSlabs slabs_;
  WeightPool::Account used_bytes_{0};
  // The pool's mutex guards the members below.
  std::vector<std::vector<std::shared_ptr<WeightPool::Entry>>> entries_;  // by slot and slab
  std::vector<uint32_t> num_holders_;                                     // by slot
  std::vector<WeightContents> contents_;                                  // by slot; empty: unknown
  // Knows the slots that have holders. Its numbers and order are also read without the mutex.
  EqualWeights equal_;
};

}  // namespace itif::model
