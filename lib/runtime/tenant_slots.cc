#include "runtime/tenant_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "backbone/open_model.h"
#include "base/check.h"
#include "base/units.h"

namespace itif::runtime {
namespace {

// Progress after the model is compared with the group's, and after its weights are packed.
constexpr double kComparedShare = 0.2, kPackedShare = 0.95;

// Third-party code and containers may throw on a very large or malformed file.
template <class Load>
Result<uint32_t> guarded(const std::string& directory, Load&& load) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    return fail(Code::kResourceExhausted, fmt::format("{}: no memory to load it", directory));
  } catch (const std::exception& e) {
    return fail(Code::kInternal, fmt::format("{}: {}", directory, e.what()));
  }
}

}  // namespace

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
  return guarded(directory, [&]() -> Result<uint32_t> {
    if (progress) progress("reading " + directory, 0);
    ITIF_ASSIGN(backbone::OpenedModel opened, backbone::open_model(directory));
    return try_admit(opened, progress);
  });
}

Result<uint32_t> TenantSlots::admit_opened(backbone::OpenedModel model,
                                           const model::Progress& progress) {
  const std::string directory = model.checkpoint.directory();
  return guarded(directory, [&] { return try_admit(model, progress); });
}

Result<std::shared_ptr<const uint32_t>> TenantSlots::borrow_slot() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (const AdmittedTenant* tenant = find(slot))
      return std::make_shared<const uint32_t>(tenant->model.weight_slot);
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
  weights_->release(tenant->model.weight_slot);
  head_bytes_ -= tenant->head_bytes();
  --num_tenants_;
  delete tenant;
  weight_bytes_ = weights_->used_bytes() + head_bytes_;
}

Result<uint32_t> TenantSlots::try_admit(backbone::OpenedModel& opened,
                                        const model::Progress& progress) {
  const std::string directory = opened.checkpoint.directory();
  const auto report = [&](const std::string& stage, double fraction) {
    if (progress) progress(stage, fraction);
  };
  if (Status fits = model::check_fits(spec_, opened.spec); !fits)
    return fail(fits.error().code, fmt::format("{}/config.json does not fit the group: {}",
                                               directory, fits.error().message));

  const auto free = std::ranges::find_if(slots_, [](const auto& slot) { return !slot.load(); });
  if (free == slots_.end())
    return fail(Code::kResourceExhausted,
                fmt::format("all {} slots of the group are taken: remove a tenant, or raise "
                            "max_tenants and restart",
                            slots_.size()));
  const auto slot = static_cast<uint32_t>(free - slots_.begin());

  const std::vector<model::WeightKind> kinds = kinds_of(opened.spec);
  const auto report_kind = [&](const char* what, size_t kind, double first, double last) {
    report(what + kinds[kind].name,
           first + (last - first) * static_cast<double>(kind) / static_cast<double>(kinds.size()));
  };
  model::WeightStore::Match match = weights_->no_match();
  if (options_.shares_weights) {
    ITIF_ASSIGN(match, weights_->match(kinds, opened.checkpoint, [&](size_t kind) {
      report_kind("comparing ", kind, 0, kComparedShare);
    }));
  }

  // Checked before loading: packing gigabytes only to find no room for the last tensor would slow
  // the tenants that are served.
  // Weights on their way to the host device take memory of the same machine.
  const uint64_t loading_bytes =
      device_.info().kind == "host" ? weights_->loading_bytes(match, kinds, opened.checkpoint) : 0;
  const uint64_t needed_bytes = match.new_bytes + model::head_bytes(opened.head) +
                                HeadScratch::bytes_of(opened.head, options_) + loading_bytes;
  if (const uint64_t left_bytes = device_.available_bytes(); needed_bytes > left_bytes)
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} needs {} of the device's memory ({} only while it loads), of which {} are "
                    "left: remove a tenant or raise device.memory",
                    directory, format_bytes(needed_bytes), format_bytes(loading_bytes),
                    format_bytes(left_bytes)));

  // Releases the weights unless the tenant is published.
  struct SlotGuard {
    model::WeightStore* weights;
    uint32_t slot;
    ~SlotGuard() {
      if (weights) weights->release(slot);
    }
  };
  ITIF_ASSIGN(const uint32_t weight_slot,
              weights_->add(match, kinds, opened.checkpoint, [&](size_t kind) {
                report_kind("packing ", kind, kComparedShare, kPackedShare);
              }));
  SlotGuard guard{weights_.get(), weight_slot};
  report("loading the head", kPackedShare);
  auto tenant = std::make_unique<AdmittedTenant>();
  ITIF_ASSIGN(tenant->model.head, model::load_head(device_, opened.head, opened.checkpoint));
  ITIF_ASSIGN(tenant->scratch, HeadScratch::make(device_, opened.head, options_));
  ITIF_TRY(opened.checkpoint.unchanged());

  tenant->model.directory = directory;
  tenant->model.slot = slot;
  tenant->model.weight_slot = weight_slot;
  tenant->model.spec = opened.spec;
  tenant->model.tokenizer = std::move(opened.tokenizer);
  tenant->model.images = std::move(opened.images);
  tenant->model.max_tokens = std::min(opened.spec.max_tokens(), options_.max_tokens);
  tenant->model.max_text_tokens = std::min(tenant->model.max_tokens, opened.max_text_tokens);
  tenant->model.weight_bytes = weights_->slot_bytes() + tenant->head_bytes();
  head_bytes_ += tenant->head_bytes();
  weight_bytes_ = weights_->used_bytes() + head_bytes_;
  ++num_tenants_;
  guard.weights = nullptr;
  slots_[slot].store(tenant.release(), std::memory_order_release);
  report("ready", 1);
  return slot;
}

}  // namespace itif::runtime
