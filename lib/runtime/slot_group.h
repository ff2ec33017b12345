// The part of a group that both kinds share: its tenants are in slots (tenant_slots.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/group.h"
#include "runtime/tenant_slots.h"

namespace itif::runtime {

// `Kind`: EncoderGroup or DecoderGroup.
template <class Kind>
class SlotGroup : public Kind {
 public:
  explicit SlotGroup(std::unique_ptr<TenantSlots> tenants) : tenants_(std::move(tenants)) {}

  const model::BackboneSpec& spec() const noexcept final { return tenants_->spec(); }
  const GroupOptions& options() const noexcept final { return tenants_->options(); }
  Result<uint32_t> admit(const model::ModelFiles& files, const model::Progress& progress) final {
    return tenants_->admit(files, progress);
  }
  Result<uint32_t> admit_opened(backbone::OpenedModel model,
                                const model::Progress& progress) final {
    return tenants_->admit_opened(std::move(model), progress);
  }
  void release(uint32_t slot) final { tenants_->release(slot); }
  const model::TenantModel* model(uint32_t slot) const noexcept final {
    return tenants_->model(slot);
  }
  uint32_t weight_order(uint32_t weight_slot) const noexcept final {
    return tenants_->weight_order(weight_slot);
  }
  uint32_t num_tenants() const noexcept final { return tenants_->num_tenants(); }
  uint64_t weight_bytes() const noexcept final { return tenants_->weight_bytes(); }
  std::vector<backbone::GemmUse> gemms() const final { return tenants_->gemms(); }

 protected:
  TenantSlots& tenants() const noexcept { return *tenants_; }

 private:
  const std::unique_ptr<TenantSlots> tenants_;
};

}  // namespace itif::runtime
