// The weights of all tenants of a group, concatenated per weight kind: slot s of each slab holds
// tenant s's weights (ITIF, section 3.2, equation 3.1). Operators take the slab and each row's
// slot; ITIF calls this weights rotation.
//
// A backbone family defines its weight kinds (WeightKind); the store knows nothing else of the
// family. Matrices are stored in the device's packed layout, tables in its activation type, and
// vectors in f32. Vectors are short and share one slab.
//
// Threads: acquire, load and release on the control thread; slab() on any. The slabs' addresses
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

// The possible names of a tensor; the first that the checkpoint holds is used. Without names the
// tensor is zeros: a bias that the architecture leaves out.
struct Source {
  std::vector<std::string> names;
};

// Initial values in models of random weights (itif-mkmodel, benches).
enum class Init : uint8_t { kNormal, kOne, kZero };

struct WeightKind {
  std::string name;  // "layer 3 qkv weight": for messages and progress
  Storage storage = Storage::kVector;
  // Stacked from the top, each of shape `source_shape`. If a matrix has more than two dimensions,
  // all after the first are its columns (a convolution over patches).
  std::vector<Source> sources = {};
  Shape source_shape = {};
  device::GemmShape gemm = {};  // kMatrix: shape of each of its GEMMs
  // kMatrix: if more than 1, each source is its own GEMM, gemm_stride_bytes() after the previous.
  uint32_t num_gemms = 1;
  Init init = Init::kNormal;
  float fill = 0;  // kMatrix, kVector: value of the store's rows that a model lacks
};

// Returns true if the next kind is the bias of this kind's GEMM. The bias is then also packed with
// the weight (Device::pack_bias).
bool has_bias(const WeightKind& kind);
// Bytes from one packed weight to the next in a sequence of one shape.
Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape);
// Packs a matrix [num_gemms · gemm.n, gemm.k] from views that fill it from the top down. REQUIRES:
// no view belongs to two GEMMs. Errors: those of Device::pack.
Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target);

// The slabs by weight kind, as a forward pass takes them.
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

  // Commits a free slot, or holds nothing. Errors: kResourceExhausted: no free slot, or no memory.
  Result<uint32_t> acquire();
  // Fills a slot from a checkpoint. `kinds` are the model's own kinds. They equal the store's,
  // except that tables, matrices of one source and vectors may have fewer rows. `on_kind(i)` is
  // called before kind i. Errors: kInvalidArgument, kCorrupt (tensors; also a weight that is
  // infinite in the device's types); the slot stays acquired.
  Status load(uint32_t slot, const std::vector<WeightKind>& kinds, const Checkpoint& checkpoint,
              const std::function<void(size_t)>& on_kind);
  // Frees the slot and its memory. REQUIRES: acquired, and no launch uses it.
  void release(uint32_t slot);

  // The slab of a kind, for all slots.
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
