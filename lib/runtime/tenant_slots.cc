#include "runtime/tenant_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "backbone/open_model.h"
#include "base/check.h"
#include "base/units.h"

namespace itif::runtime {

Result<std::unique_ptr<TenantSlots>> TenantSlots::create(device::Device& device,
                                                         const backbone::Family& family,
                                                         const model::BackboneSpec& spec,
                                                         const GroupOptions& options,
                                                         backbone::FusionMode fusion_mode) {
  if (options.max_tokens == 0 || options.max_requests == 0 || options.max_tenants == 0)
    return fail(Code::kInvalidArgument,
                "max_tokens, max_requests and max_tenants of a group must be at least 1");
  std::unique_ptr<TenantSlots> slots(new TenantSlots(device, family, spec, options, fusion_mode));
  ITIF_ASSIGN(slots->weights_,
              model::WeightStore::create(device, slots->kinds_of(spec), options.max_tenants));
  return slots;
}

TenantSlots::TenantSlots(device::Device& device, const backbone::Family& family,
                         const model::BackboneSpec& spec, const GroupOptions& options,
                         backbone::FusionMode fusion_mode)
    : device_(device),
      family_(family),
      spec_(spec),
      options_(options),
      fusion_mode_(fusion_mode),
      slots_(options.max_tenants) {}

TenantSlots::~TenantSlots() {
  for (auto& slot : slots_) delete slot.load();
}

std::vector<model::WeightKind> TenantSlots::kinds_of(const model::BackboneSpec& spec) const {
  return backbone::weight_kinds(family_, spec, fusion_mode_);
}

Result<uint32_t> TenantSlots::admit(const std::string& directory, const model::Progress& progress) {
  // Third-party code and containers may throw on a very large or malformed file.
  try {
    return try_admit(directory, progress);
  } catch (const std::bad_alloc&) {
    return fail(Code::kResourceExhausted, fmt::format("{}: no memory to load it", directory));
  } catch (const std::exception& e) {
    return fail(Code::kInternal, fmt::format("{}: {}", directory, e.what()));
  }
}

Result<std::shared_ptr<const uint32_t>> TenantSlots::borrow_slot() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (find(slot) != nullptr) return std::make_shared<const uint32_t>(slot);
  ITIF_ASSIGN(const uint32_t free, weights_->acquire());
  return std::shared_ptr<const uint32_t>(new uint32_t(free), [this](const uint32_t* slot) {
    weights_->release(*slot);
    delete slot;
  });
}

void TenantSlots::release(uint32_t slot) {
  CHECK(slot < slots_.size());
  AdmittedTenant* tenant = slots_[slot].exchange(nullptr);
  CHECK(tenant);
  weight_bytes_ -= tenant->model.weight_bytes;
  --num_tenants_;
  delete tenant;
  weights_->release(slot);
}

Result<uint32_t> TenantSlots::try_admit(const std::string& directory,
                                        const model::Progress& progress) {
  const auto report = [&](const std::string& stage, double fraction) {
    if (progress) progress(stage, fraction);
  };
  report("reading " + directory, 0);
  ITIF_ASSIGN(backbone::OpenedModel opened, backbone::open_model(directory));
  if (Status fits = model::check_fits(spec_, opened.spec); !fits)
    return fail(fits.error().code, fmt::format("{}/config.json does not fit the group: {}",
                                               directory, fits.error().message));

  // Checked before loading: reading gigabytes only to find no room for the last tensor would slow
  // the tenants that are served.
  const uint64_t needed_bytes = weights_->slot_bytes() + model::head_bytes(opened.head) +
                                HeadScratch::bytes_of(opened.head, options_);
  if (const uint64_t left_bytes = device_.available_bytes(); needed_bytes > left_bytes)
    return fail(Code::kResourceExhausted,
                fmt::format("{} needs {} of the device's memory, of which {} are left: remove a "
                            "tenant or raise device.memory",
                            directory, format_bytes(needed_bytes), format_bytes(left_bytes)));

  // Releases the slot unless the tenant is published.
  struct SlotGuard {
    model::WeightStore* weights;
    uint32_t slot;
    ~SlotGuard() {
      if (weights) weights->release(slot);
    }
  };
  ITIF_ASSIGN(const uint32_t slot, weights_->acquire());
  SlotGuard guard{weights_.get(), slot};

  const std::vector<model::WeightKind> kinds = kinds_of(opened.spec);
  ITIF_TRY(weights_->load(slot, kinds, opened.checkpoint, [&](size_t kind) {
    report("packing " + kinds[kind].name,
           0.95 * static_cast<double>(kind) / static_cast<double>(kinds.size()));
  }));
  report("loading the head", 0.95);
  auto tenant = std::make_unique<AdmittedTenant>();
  ITIF_ASSIGN(tenant->model.head, model::load_head(device_, opened.head, opened.checkpoint));
  ITIF_ASSIGN(tenant->scratch, HeadScratch::make(device_, opened.head, options_));
  ITIF_TRY(opened.checkpoint.unchanged());

  tenant->model.directory = directory;
  tenant->model.slot = slot;
  tenant->model.spec = opened.spec;
  tenant->model.tokenizer = std::move(opened.tokenizer);
  tenant->model.images = std::move(opened.images);
  tenant->model.max_tokens = std::min(opened.spec.max_tokens(), options_.max_tokens);
  tenant->model.max_text_tokens = std::min(tenant->model.max_tokens, opened.max_text_tokens);
  tenant->model.weight_bytes =
      weights_->slot_bytes() + tenant->model.head.bytes + tenant->scratch.bytes();
  weight_bytes_ += tenant->model.weight_bytes;
  ++num_tenants_;
  guard.weights = nullptr;
  slots_[slot].store(tenant.release(), std::memory_order_release);
  report("ready", 1);
  return slot;
}

}  // namespace itif::runtime
