// A group's tenants: admits models into slots and releases them. Both kinds of group use it.
//
// Requests name their tenant's slot. Launches name its weight slot (TenantModel::weight_slot).
// Tenants of equal backbones have the same weight slot, so that their rows run in one GEMM. Those
// that are equal in some layers have neighbouring places in a batch (weight_order()), and one GEMM
// in these layers (cost/pass_gemms.h). An adapter has the weight slot of its base, and matrices of
// its own.
//
// Threads: any, except borrow_slot(). Several threads admit models at the same time: each fills a
// slot that it has reserved, and publishes it at the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "backbone/open_model.h"
#include "model/weight_store.h"
#include "runtime/admitted_tenant.h"
#include "runtime/group.h"
#include "runtime/head_scratch.h"
#include "runtime/load_memory.h"

namespace itif::runtime {

class TenantSlots {
 public:
  // Reserves the slabs. `device` and `family` outlive the object. Errors: kInvalidArgument (options
  // that cannot hold one request), kResourceExhausted.
  static Result<std::unique_ptr<TenantSlots>> create(device::Device& device,
                                                     const backbone::Family& family,
                                                     const model::BackboneSpec& spec,
                                                     const GroupOptions& options,
                                                     backbone::FusionMode fusion_mode);
  ~TenantSlots();
  TenantSlots(const TenantSlots&) = delete;
  TenantSlots& operator=(const TenantSlots&) = delete;

  const model::BackboneSpec& spec() const noexcept { return spec_; }
  const GroupOptions& options() const noexcept { return options_; }
  std::vector<backbone::GemmUse> gemms() const {
    return backbone::gemms(family_, spec_, fusion_mode_);
  }

  // As in weights().
  std::vector<model::WeightKind> weight_kinds() const { return kinds_of(spec_); }

  // Group::admit, Group::admit_opened and Group::release.
  Result<uint32_t> admit(const model::ModelFiles& files, const model::Progress& progress);
  Result<uint32_t> admit_opened(backbone::OpenedModel model, const model::Progress& progress);
  void release(uint32_t slot);

  // Returns a slot of weights() that a pass may read: an admitted tenant's, or a free one, whose
  // memory is held as long as the result. Its values are unspecified. Control's job thread; no slot
  // may change meanwhile. Errors: kResourceExhausted.
  Result<std::shared_ptr<const uint32_t>> borrow_slot();

  // Returns the tenant in a slot; nullptr: the slot is free. Lock-free.
  AdmittedTenant* find(uint32_t slot) const noexcept {
    return slot < slots_.size() ? slots_[slot].load(std::memory_order_acquire) : nullptr;
  }
  const model::TenantModel* model(uint32_t slot) const noexcept {
    const AdmittedTenant* tenant = find(slot);
    return tenant ? &tenant->model : nullptr;
  }
  const model::ModuleNumbers& modules() const noexcept { return modules_; }
  model::WeightView weights() const noexcept { return weights_->view(); }  // of all slots
  // Group::weight_order.
  uint32_t weight_order(uint32_t weight_slot) const noexcept {
    return options_.shares_weights ? weights_->order_of(weight_slot) : weight_slot;
  }
  HeadScratch& head_scratch() noexcept { return head_scratch_; }  // has all tenants' heads
  uint32_t num_tenants() const noexcept { return num_tenants_; }
  // Group::weight_bytes.
  uint64_t weight_bytes() const noexcept {
    return weights_->used_bytes() + own_bytes_ + head_scratch_.bytes();
  }

 private:
  TenantSlots(device::Device& device, const backbone::Family& family,
              const model::BackboneSpec& spec, const GroupOptions& options,
              backbone::FusionMode fusion_mode);
  bool adds_updates(const backbone::OpenedAdapter& adapter) const;
  std::vector<model::WeightKind> kinds_of(const model::BackboneSpec& spec) const;
  Result<uint32_t> try_admit(backbone::OpenedModel& opened, const model::Progress& progress);
  // Compares the model's weights with those of the group. `version`: Checkpoint::version() of those
  // weights; empty: they are not all as in the files.
  Result<model::WeightStore::Match> match(const std::vector<model::WeightKind>& kinds,
                                          const backbone::OpenedModel& opened,
                                          const std::string& version,
                                          const model::WeightStore::OnKind& on_kind);
  Result<uint32_t> reserve_slot();
  using SharedAdapter = std::shared_ptr<const model::AdapterWeights>;
  // Returns an adapter that a tenant has; null: none. REQUIRES: mutex_ is held.
  SharedAdapter find_adapter(const model::ContentId& content) const;
  bool has_tenant_of(const SharedAdapter& adapter) const;  // REQUIRES: mutex_ is held

  device::Device& device_;
  const backbone::Family& family_;
  const model::BackboneSpec spec_;
  const GroupOptions options_;
  const backbone::FusionMode fusion_mode_;
  const model::ModuleNumbers modules_;
  std::unique_ptr<model::WeightStore> weights_;
  HeadScratch head_scratch_;
  LoadMemory own_load_memory_;  // unless GroupOptions names another
  LoadMemory& load_memory_;
  std::vector<std::atomic<AdmittedTenant*>> slots_;  // owned; written with mutex_ held
  mutable std::mutex mutex_;
  std::vector<bool> is_taken_;  // by slot, also while it is filled; guarded by mutex_
  std::atomic<uint32_t> num_tenants_ = 0;
  // Adapters of all tenants, each once, and heads as far as they count here.
  model::WeightPool::Account own_bytes_ = 0;
};

}  // namespace itif::runtime
