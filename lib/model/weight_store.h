// The weights of all tenants of a group, concatenated per weight kind: slot s of each slab holds
// tenant s's (ITIF, section 3.2, equation 3.1). Operators take the slab and each row's slot, which
// is what ITIF calls weights rotation.
//
// A backbone family says what its weight kinds are (WeightKind); the store knows nothing else of it. Kinds
// are stored as their use asks: matrices in the device's packed layout, tables in its activation
// type, vectors in f32 and, all being short, side by side in one slab.
//
// Threads: acquire, load and release on control's thread; slab() anywhere. The slabs' addresses
// never change, so the executor serves the other slots meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/checkpoint.h"

namespace itif::model {

enum class Storage : uint8_t {
  kTable,   // rows in the activation type: embeddings
  kMatrix,  // a GEMM's weight, packed
  kVector,  // f32: biases, LayerNorm
};

// A tensor, by the names it may have: the first that the checkpoint holds counts. Without any it is zeros:
// a bias that an architecture may leave out.
struct Source {
  std::vector<std::string> names;
};

// What it is where models are made up (itif-mkmodel, benches).
enum class Init : uint8_t { kNormal, kOne, kZero };

struct WeightKind {
  std::string name;  // "layer 3 qkv weight": for messages and progress
  Storage storage = Storage::kVector;
  // Stacked from the top, each of shape `source_shape`: of a matrix with more than two dimensions, all
  // behind the first are its columns (a convolution over patches).
  std::vector<Source> sources = {};
  Shape source_shape = {};
  device::GemmShape gemm = {};  // kMatrix: of each of its GEMMs
  // kMatrix: more than one: each source is a GEMM of its own, gemm_stride_bytes() behind the one before.
  uint32_t num_gemms = 1;
  Init init = Init::kNormal;
  float fill = 0;  // kMatrix, kVector: what a model with fewer rows than the store has behind them
};

// Whether the kind behind it is the bias of its GEMM: to be packed with it (Device::pack_bias), too.
bool has_bias(const WeightKind& kind);
// Packed weights of one shape behind each other.
Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape);
// Packs a matrix [num_gemms · gemm.n, gemm.k] from views that fill it from the top down. REQUIRES: no view
// belongs to two GEMMs. Errors: those of Device::pack.
Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target);

// Where the weights of all slots stand, by kind: what a forward pass takes.
struct WeightView {
  std::span<const kernels::Slab> slabs;
  const kernels::Slab& operator[](size_t kind) const { return slabs[kind]; }
};

class WeightStore {
 public:
  // Reserves addresses for max_slots tenants of these kinds; memory is committed slot by slot.
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<WeightStore>> create(device::Device& device,
                                                     std::vector<WeightKind> kinds,
                                                     uint32_t max_slots);

  // Commits a free slot. Errors: kResourceExhausted: no free slot, or no memory (nothing is held
  // then).
  Result<uint32_t> acquire();
  // Fills a slot from a checkpoint. `kinds` are the model's own: the store's, but for tables, matrices
  // of one source and vectors that may have fewer rows. `on_kind(i)` is called before kind i.
  // Errors: kInvalidArgument, kCorrupt (tensors); the slot stays acquired.
  Status load(uint32_t slot, const std::vector<WeightKind>& kinds, const Checkpoint& checkpoint,
              const std::function<void(size_t)>& on_kind);
  // Gives the slot and its memory back. REQUIRES: acquired, and no launch uses it.
  void release(uint32_t slot);

  // Where kind i of all slots stands.
  kernels::Slab slab(size_t kind) const { return slabs_[kind]; }
  WeightView view() const { return {slabs_}; }
  const std::vector<WeightKind>& kinds() const { return kinds_; }
  // Device memory of one committed slot.
  uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  WeightStore(device::Device& device, std::vector<WeightKind> kinds)
      : device_(device), kinds_(std::move(kinds)) {}

  device::Device& device_;
  std::vector<WeightKind> kinds_;
  std::vector<std::unique_ptr<device::SlabMemory>> memory_;
  std::vector<kernels::Slab> slabs_;  // by kind
  std::vector<bool> used_;            // by slot
  uint64_t slot_bytes_ = 0;
};

}  // namespace itif::model
