// An adapter's matrices on the device, beside the base's weights: the base's GEMMs serve all its
// adapters, and the low-rank updates are added to their results (kernels/low_rank_args.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "kernels/low_rank_args.h"
#include "model/adapter.h"
#include "model/content_hash.h"
#include "model/weight_kind.h"

namespace itif::model {

// A module of an adapter, and the weight that it changes: a source of a kind.
struct PlacedModule {
  size_t kind = 0, source = 0;
  AdapterModule module;
};

// Numbers the modules that adapters may change: the sources of each matrix kind, in their order.
class ModuleNumbers {
 public:
  explicit ModuleNumbers(std::span<const WeightKind> kinds);
  // [kinds + 1]: the number of a kind's first module. The next kind's follows its last.
  std::span<const uint32_t> first() const { return first_; }
  uint32_t count() const { return first_.back(); }

 private:
  std::vector<uint32_t> first_;
};

class AdapterWeights {
 public:
  // Returns the device memory that load() takes.
  static uint64_t bytes_of(const device::Device& device, std::span<const WeightKind> kinds,
                           std::span<const PlacedModule> modules);
  // Returns the content of what load() uploads: the modules' places, scales and values. Adapters of
  // a group with equal contents have the same bytes. Errors: those of Adapter::read.
  static Result<ContentId> content_of(const ContentKey& key, std::span<const WeightKind> kinds,
                                      const Adapter& adapter,
                                      std::span<const PlacedModule> modules);
  // Uploads the matrices in the device's activation type. Errors: kResourceExhausted; those of
  // Adapter::read; kInvalidArgument: a value that is infinite in that type.
  static Result<std::unique_ptr<AdapterWeights>> load(device::Device& device,
                                                      std::span<const WeightKind> kinds,
                                                      const Adapter& adapter,
                                                      std::span<const PlacedModule> modules);

  // Device memory, by ModuleNumbers.
  const kernels::LowRankModule* modules() const {
    return reinterpret_cast<const kernels::LowRankModule*>(memory_->data());
  }
  // [kinds]: 1 if the adapter changes a module of the kind.
  std::span<const uint8_t> changed_kinds() const { return changed_; }
  // [kinds]: the values of the update's matrices over those of the kind's GEMM; 0: no update. An
  // update of a row takes this part of the GEMM's products.
  std::span<const float> update_shares() const { return shares_; }
  uint32_t max_rank() const { return max_rank_; }
  uint64_t bytes() const { return memory_->bytes(); }

 private:
  explicit AdapterWeights(size_t num_kinds) : changed_(num_kinds), shares_(num_kinds) {}

  std::unique_ptr<device::Buffer> memory_;
  std::vector<uint8_t> changed_;
  std::vector<float> shares_;
  uint32_t max_rank_ = 0;
};

}  // namespace itif::model
