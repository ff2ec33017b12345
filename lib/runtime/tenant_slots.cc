#include "runtime/tenant_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

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

// Returns Checkpoint::version() if all weights are as in the files; else empty.
std::string version_of(const std::vector<model::WeightKind>& kinds,
                       const model::Checkpoint& checkpoint) {
  for (const model::WeightKind& kind : kinds)
    for (const model::Source& source : kind.sources)
      if (!source.names.empty() && checkpoint.is_in_memory(checkpoint.choose(source.names)))
        return {};
  return checkpoint.version();
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
              model::WeightStore::create(device, slots->kinds_of(spec), options.max_tenants,
                                         options.shares_weights ? options.weight_pool : nullptr));
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
      modules_(kinds_of(spec)),
      head_scratch_(device, options_),
      load_memory_(options.load_memory != nullptr ? *options.load_memory : own_load_memory_),
      slots_(options.max_tenants),
      is_taken_(options.max_tenants) {}

TenantSlots::~TenantSlots() {
  for (auto& slot : slots_) delete slot.load();
}

std::vector<model::WeightKind> TenantSlots::kinds_of(const model::BackboneSpec& spec) const {
  return backbone::weight_kinds(family_, spec, fusion_mode_);
}

Result<uint32_t> TenantSlots::admit(const model::ModelFiles& files,
                                    const model::Progress& progress) {
  return guarded(files.directory, [&]() -> Result<uint32_t> {
    if (progress) progress("reading " + files.directory, 0);
    ITIF_ASSIGN(backbone::OpenedModel opened, backbone::open_model(files));
    return try_admit(opened, progress);
  });
}

Result<uint32_t> TenantSlots::admit_opened(backbone::OpenedModel model,
                                           const model::Progress& progress) {
  const std::string directory = model.files.directory;
  return guarded(directory, [&] { return try_admit(model, progress); });
}

// Decoders and the thesis fusion mode have no operator for updates. DoRA scales rows of the sum of
// weight and update, which no sum of results has.
bool TenantSlots::adds_updates(const backbone::OpenedAdapter& adapter) const {
  return family_.make_decoder == nullptr && fusion_mode_ == backbone::FusionMode::kFused &&
         !adapter.adapter.config().has_magnitudes;
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
  std::unique_ptr<AdmittedTenant> tenant;  // freed without the lock
  const std::lock_guard lock(mutex_);
  tenant.reset(slots_[slot].exchange(nullptr));
  CHECK(tenant);
  is_taken_[slot] = false;
  weights_->release(tenant->model.weight_slot);
  head_scratch_.remove(tenant->model.head.spec);
  if (tenant->adapter != nullptr && !has_tenant_of(tenant->adapter))
    own_bytes_ -= tenant->adapter->bytes();
  --num_tenants_;
}

TenantSlots::SharedAdapter TenantSlots::find_adapter(const model::ContentId& content) const {
  if (content == model::ContentId()) return nullptr;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (const AdmittedTenant* tenant = find(slot);
        tenant != nullptr && tenant->adapter_content == content)
      return tenant->adapter;
  return nullptr;
}

bool TenantSlots::has_tenant_of(const SharedAdapter& adapter) const {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (const AdmittedTenant* tenant = find(slot); tenant != nullptr && tenant->adapter == adapter)
      return true;
  return false;
}

Result<uint32_t> TenantSlots::reserve_slot() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(is_taken_, false);
  if (free == is_taken_.end())
    return fail(Code::kResourceExhausted,
                fmt::format("all {} slots of the group are taken: remove a tenant, or raise "
                            "max_tenants and restart",
                            slots_.size()));
  *free = true;
  return static_cast<uint32_t>(free - is_taken_.begin());
}

// Does not read a model again whose files are those of a tenant: hundreds of adapters may have one
// base.
Result<model::WeightStore::Match> TenantSlots::match(const std::vector<model::WeightKind>& kinds,
                                                     const backbone::OpenedModel& opened,
                                                     const std::string& version,
                                                     const model::WeightStore::OnKind& on_kind) {
  if (!options_.shares_weights) return weights_->no_match();
  for (;;) {
    if (!version.empty()) {
      const std::lock_guard lock(mutex_);
      for (uint32_t slot = 0; slot < slots_.size(); ++slot)
        if (const AdmittedTenant* tenant = find(slot); tenant != nullptr &&
                                                       tenant->base_version == version &&
                                                       tenant->model.spec == opened.spec)
          return weights_->match_slot(tenant->model.weight_slot);
    }
    auto match = weights_->match(kinds, opened.checkpoint, on_kind);
    if (!match || !match->has_waited) return match;
  }
}

Result<uint32_t> TenantSlots::try_admit(backbone::OpenedModel& opened,
                                        const model::Progress& progress) {
  const std::string directory = opened.files.directory;
  const auto report = [&](const std::string& stage, double fraction) {
    if (progress) progress(stage, fraction);
  };
  if (Status fits = model::check_fits(spec_, opened.spec); !fits)
    return fail(fits.error().code, fmt::format("{}/config.json does not fit the group: {}",
                                               opened.files.whole_model(), fits.error().message));

  ITIF_ASSIGN(const uint32_t slot, reserve_slot());
  struct SlotGuard {  // frees the slot unless the tenant is published
    TenantSlots* slots;
    uint32_t slot;
    ~SlotGuard() {
      if (slots == nullptr) return;
      const std::lock_guard lock(slots->mutex_);
      slots->is_taken_[slot] = false;
    }
  } slot_guard{this, slot};

  const std::vector<model::WeightKind> kinds = kinds_of(opened.spec);
  const auto report_kind = [&](const char* what, size_t kind, double first, double last) {
    report(what + kinds[kind].name,
           first + (last - first) * static_cast<double>(kind) / static_cast<double>(kinds.size()));
  };
  if (opened.adapter && !adds_updates(*opened.adapter)) {
    report("merging the adapter", 0);
    ITIF_TRY(opened.adapter->merge(kinds, opened.checkpoint));
  }
  const std::string version = version_of(kinds, opened.checkpoint);
  ITIF_ASSIGN(const model::WeightStore::Match match,
              this->match(kinds, opened, version, [&](size_t kind) {
                report_kind("comparing ", kind, 0, kComparedShare);
              }));

  // Checked before loading: packing gigabytes only to find no room for the last tensor would slow
  // the tenants that are served.
  const bool has_updates = opened.adapter && !opened.adapter->modules.empty();
  model::ContentId adapter_content;
  SharedAdapter adapter;
  if (has_updates && options_.shares_weights) {
    ITIF_ASSIGN(adapter_content, model::AdapterWeights::content_of(weights_->pool().key(), kinds,
                                                                   opened.adapter->adapter,
                                                                   opened.adapter->modules));
    const std::lock_guard lock(mutex_);
    adapter = find_adapter(adapter_content);
  }
  const bool loads_adapter = has_updates && adapter == nullptr;
  // Weights on their way to the host device take memory of the same machine.
  const uint64_t loading_bytes =
      device_.info().kind == "host" ? weights_->loading_bytes(match, kinds, opened.checkpoint) : 0;
  model::HeadMemory head_memory{.pool = weights_->pool(),
                                .account = own_bytes_,
                                .match = {.same = {}, .new_bytes = model::head_bytes(opened.head)}};
  if (options_.shares_weights) {
    ITIF_ASSIGN(head_memory.match,
                model::match_head(weights_->pool(), opened.head, opened.checkpoint));
  }
  const uint64_t needed_bytes =
      match.new_bytes + head_memory.match.new_bytes + head_scratch_.added_bytes(opened.head) +
      loading_bytes +
      (loads_adapter ? model::AdapterWeights::bytes_of(device_, kinds, opened.adapter->modules)
                     : 0);
  auto hold = load_memory_.hold(device_, needed_bytes);
  if (!hold)
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} needs {} of the device's memory ({} only while it loads), of which {} are "
                    "left: remove a tenant or raise device.memory",
                    directory, format_bytes(needed_bytes), format_bytes(loading_bytes),
                    format_bytes(hold.error())));

  // Releases the weights unless the tenant is published.
  struct WeightsGuard {
    model::WeightStore* weights;
    uint32_t slot;
    ~WeightsGuard() {
      if (weights) weights->release(slot);
    }
  };
  ITIF_ASSIGN(const uint32_t weight_slot,
              weights_->add(match, kinds, opened.checkpoint, [&](size_t kind) {
                if (kind == 0) hold->reduce(match.new_bytes);  // add() has taken them
                report_kind("packing ", kind, kComparedShare, kPackedShare);
              }));
  WeightsGuard guard{weights_.get(), weight_slot};
  report("loading the head", kPackedShare);
  auto tenant = std::make_unique<AdmittedTenant>();
  ITIF_ASSIGN(tenant->model.head,
              model::load_head(device_, opened.head, opened.checkpoint, &head_memory));
  ITIF_TRY(head_scratch_.add(opened.head));
  struct ScratchGuard {  // releases the scratch unless the tenant is published
    HeadScratch* scratch;
    const model::HeadSpec& head;
    ~ScratchGuard() {
      if (scratch) scratch->remove(head);
    }
  } scratch_guard{&head_scratch_, opened.head};
  if (loads_adapter) {
    report("loading the adapter", kPackedShare);
    ITIF_ASSIGN(adapter, model::AdapterWeights::load(device_, kinds, opened.adapter->adapter,
                                                     opened.adapter->modules));
  }
  if (adapter != nullptr) tenant->model.adapter_bytes = adapter->bytes();
  ITIF_TRY(opened.checkpoint.unchanged());
  if (opened.adapter) ITIF_TRY(opened.adapter->adapter.unchanged());

  tenant->base_version = version;
  tenant->model.directory = directory;
  tenant->model.base = opened.files.base;
  tenant->model.slot = slot;
  tenant->model.weight_slot = weight_slot;
  tenant->model.spec = opened.spec;
  tenant->model.tokenizer = std::move(opened.tokenizer);
  tenant->model.images = std::move(opened.images);
  tenant->model.max_tokens = std::min(opened.spec.max_tokens(), options_.max_tokens);
  tenant->model.max_text_tokens = std::min(tenant->model.max_tokens, opened.max_text_tokens);
  tenant->model.weight_bytes = weights_->slot_bytes() + tenant->model.head.bytes +
                               tenant->model.adapter_bytes +
                               HeadScratch::bytes_of(opened.head, options_);
  SharedAdapter unneeded;  // freed without the lock
  {
    const std::lock_guard lock(mutex_);
    // Another thread may have admitted an equal adapter meanwhile.
    if (SharedAdapter equal = find_adapter(adapter_content))
      unneeded = std::exchange(adapter, std::move(equal));
    if (adapter != nullptr && !has_tenant_of(adapter)) own_bytes_ += adapter->bytes();
    tenant->adapter = adapter;
    tenant->adapter_content = adapter_content;
    ++num_tenants_;
    guard.weights = nullptr;
    scratch_guard.scratch = nullptr;
    slot_guard.slots = nullptr;
    slots_[slot].store(tenant.release(), std::memory_order_release);
  }
  report("ready", 1);
  return slot;
}

}  // namespace itif::runtime
