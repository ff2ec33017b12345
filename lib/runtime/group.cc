#include "runtime/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>

#include "backbone/decoder.h"
#include "backbone/open_model.h"
#include "base/check.h"
#include "base/units.h"
#include "runtime/batch_layout.h"
#include "runtime/gemm_scheduler.h"
#include "runtime/head_runner.h"
#include "runtime/step_launch.h"
#include "runtime/tenant_entry.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

// Part of the device's memory that a K/V cache may take: the rest is for weights and other groups.
constexpr uint64_t kCacheShare = 4;
// A step's rows for each beam that may live, at most: a tenant's beams take ranges of their own.
constexpr uint32_t kStepPadding = 8;

void drop_result(Segment& segment, StatusCode status, const char* detail) noexcept {
  std::free(segment.result.data);
  segment.result = {};
  segment.status = status;
  segment.detail = detail;
}

class BackboneGroup final : public Group {
 public:
  BackboneGroup(device::Device& device, const model::BackboneSpec& spec,
                const GroupOptions& options, const backbone::Family& family)
      : device_(device),
        spec_(spec),
        options_(options),
        family_(family),
        slots_(options.max_tenants),
        gemms_(device.info().num_threads, std::max(options.max_requests, options.max_beams),
               std::max(options.max_tokens, options.max_beams)) {
    const uint32_t form_rows = device.info().form_rows;
    if (family.make_decoder) {
      step_forms_ = {
          .sources = BatchForms(std::min(form_rows, options.max_tokens), 0),
          .steps = BatchForms::of_steps(std::min(form_rows, kStepPadding * options.max_beams))};
      step_layout_.emplace(options.max_beams, options.max_tokens, spec.max_positions, step_forms_);
      return;
    }
    if (options.fidelity == backbone::Fidelity::kFused)
      forms_ = BatchForms(std::min(form_rows, options.max_tokens),
                          spec.takes_images() ? spec.max_tokens() : 0);
    for (uint32_t place = 0; place < kMaxInFlight; ++place)
      flights_.emplace_back(options, forms_, place);
    form_layout_.emplace(options, forms_, 0);
  }

  ~BackboneGroup() override {
    for (auto& slot : slots_) delete slot.load();
  }

  Status allocate() {
    if (family_.make_decoder) return allocate_decoder();
    ITIF_ASSIGN(backbone_,
                family_.make(device_, spec_,
                             {.max_rows = options_.max_tokens, .fidelity = options_.fidelity}));
    ITIF_ASSIGN(heads_, HeadRunner::make(device_, spec_, options_));
    ITIF_ASSIGN(weights_,
                model::WeightStore::create(device_, kinds_of(spec_), options_.max_tenants));
    return {};
  }

  Status allocate_decoder() {
    ITIF_ASSIGN(weights_,
                model::WeightStore::create(device_, kinds_of(spec_), options_.max_tenants));
    const uint64_t cache_bytes =
        std::min<uint64_t>(options_.max_cache_bytes, device_.available_bytes() / kCacheShare);
    ITIF_ASSIGN(decoder_, family_.make_decoder(device_, spec_,
                                               {.max_rows = options_.max_tokens,
                                                .max_beams = options_.max_beams,
                                                .max_step_rows = max_step_rows(),
                                                .max_cache_bytes = cache_bytes}));
    return {};
  }

  const model::BackboneSpec& spec() const noexcept override { return spec_; }
  std::vector<backbone::GemmUse> gemms() const override { return family_.gemms(spec_); }
  void set_costs(std::shared_ptr<const plan::CostTables> costs) override {
    gemms_.set_costs(std::move(costs));
  }
  kernels::GemmModes gemm_modes(std::span<const kernels::RowRange> ranges) noexcept override {
    return gemms_.choose(ranges);
  }
  const GroupOptions& options() const noexcept override { return options_; }

  Result<uint32_t> admit(const std::string& directory, const model::Progress& progress) override {
    // Third-party code and containers may throw on a file that is large and strange.
    try {
      return try_admit(directory, progress);
    } catch (const std::bad_alloc&) {
      return fail(Code::kResourceExhausted, fmt::format("{}: no memory to load it", directory));
    } catch (const std::exception& e) {
      return fail(Code::kInternal, fmt::format("{}: {}", directory, e.what()));
    }
  }

  void release(uint32_t slot) override {
    CHECK(slot < slots_.size());
    TenantEntry* entry = slots_[slot].exchange(nullptr);
    CHECK(entry);
    weight_bytes_ -= entry->model.weight_bytes;
    --num_tenants_;
    delete entry;
    weights_->release(slot);
  }

  const model::TenantModel* model(uint32_t slot) const noexcept override {
    const TenantEntry* entry = this->entry(slot);
    return entry ? &entry->model : nullptr;
  }

  backbone::Decoder* decoder() noexcept override { return decoder_.get(); }
  uint32_t num_kv_blocks() const noexcept override { return decoder_ ? decoder_->num_blocks() : 0; }
  model::WeightView weights() const noexcept override { return weights_->view(); }

  const GenerationForms& generation_forms() const noexcept override { return step_forms_; }

  size_t num_forms() const noexcept override {
    if (decoder_) return step_forms_.sources.all().size() + step_forms_.steps.all().size();
    return forms_.all().size();
  }
  Status make_ready(device::Stream& stream, size_t form) noexcept override {
    if (!decoder_) {
      form_layout_->build(forms_.all()[form]);
      (void)launch_backbone(stream, form_layout_->pass());
    } else if (const auto steps = step_forms_.steps.all(); form < steps.size()) {
      step_layout_->build_step(steps[form]);
      (void)launch_step(*this, stream, *step_layout_);
    } else {
      step_layout_->build_sources(step_forms_.sources.all()[form - steps.size()]);
      launch_sources(*this, stream, *step_layout_);
    }
    return stream.make_ready();
  }

  uint32_t num_tenants() const noexcept override { return num_tenants_; }
  uint64_t weight_bytes() const noexcept override { return weight_bytes_; }
  uint64_t workspace_bytes() const noexcept override {
    if (decoder_) return decoder_->workspace_bytes() + decoder_->cache_bytes();
    return backbone_->workspace_bytes() + heads_->workspace_bytes();
  }

  void begin(device::Stream& stream, Batch& batch, uint32_t place) noexcept override {
    CHECK(backbone_ != nullptr);
    Flight& flight = flights_[place];
    BatchLayout& layout = flight.layout;
    layout.build(batch.segments, [this](uint32_t slot) { return entry(slot); });
    flight.has_ids = false;
    batch.num_padding_rows = layout.num_padding_rows();
    if (layout.live().empty()) return;
    const backbone::Pass pass = layout.pass();
    const backbone::Hidden hidden = launch_backbone(stream, pass);
    heads_->launch(stream, hidden.rows, layout);
    if (!hidden.ids) return;
    flight.has_ids = true;
    stream.copy_to_host(hidden.ids, pass.num_rows * sizeof(int32_t), flight.ids.data());
  }

  Status finish(Batch& batch, uint32_t place, Status computed) noexcept override {
    const Flight& flight = flights_[place];
    if (flight.layout.live().empty()) return {};
    if (!computed) {
      const bool is_out_of_memory = computed.error().code == Code::kResourceExhausted;
      for (Segment& segment : batch.segments) {
        if (is_out_of_memory)
          drop_result(segment, StatusCode::kOverloaded, "the device has no memory for the batch");
        else
          drop_result(segment, StatusCode::kDeviceFailed, "the group's device has failed");
      }
      return is_out_of_memory ? Status() : std::move(computed);
    }
    heads_->finish(flight.layout);
    if (flight.has_ids) refuse_unknown_ids(flight);
    return {};
  }

 private:
  // A part by itself: which heads and results are behind it differs where batches are alike otherwise.
  backbone::Hidden launch_backbone(device::Stream& stream, backbone::Pass pass) noexcept {
    // One call, which names no tenant.
    pass.gemm_mode = pass.has_form ? kernels::GemmMode::kAtOnce : gemm_modes(pass.ranges);
    const backbone::Hidden hidden = backbone_->launch(stream, weights_->view(), pass);
    stream.begin_part();
    return hidden;
  }

  // A batch between begin() and finish(): what the host reads and writes for it. Memory of the device is
  // shared by all, since their launches run one after another.
  struct Flight {
    Flight(const GroupOptions& options, const BatchForms& forms, uint32_t place)
        : layout(options, forms, place), ids(options.max_tokens) {}
    BatchLayout layout;
    std::vector<int32_t> ids;  // [max_tokens], as they were gathered
    bool has_ids = false;
  };

  uint32_t max_step_rows() const noexcept {
    return std::max(options_.max_beams, step_forms_.steps.max_rows());
  }
  std::vector<model::WeightKind> kinds_of(const model::BackboneSpec& spec) const {
    return backbone::weight_kinds(
        family_, spec, family_.make_decoder ? backbone::Fidelity::kFused : options_.fidelity);
  }
  TenantEntry* entry(uint32_t slot) const noexcept {
    return slot < slots_.size() ? slots_[slot].load(std::memory_order_acquire) : nullptr;
  }

  // Ids are only known once they were gathered; rows never mix, so a bad id spoils its own segment.
  static void refuse_unknown_ids(const Flight& flight) noexcept {
    for (const BatchLayout::Live& live : flight.layout.live()) {
      const std::span<const int32_t> ids =
          std::span(flight.ids).subspan(live.first_row, live.segment->num_tokens);
      const auto vocab = static_cast<int32_t>(live.tenant->model.spec.vocab);
      if (std::ranges::any_of(ids, [vocab](int32_t id) { return id < 0 || id >= vocab; }))
        drop_result(*live.segment, StatusCode::kMalformed,
                    "a token id is outside the model's vocabulary");
    }
  }

  Result<uint32_t> try_admit(const std::string& directory, const model::Progress& progress) {
    const auto report = [&](const std::string& stage, double fraction) {
      if (progress) progress(stage, fraction);
    };
    report("reading " + directory, 0);
    ITIF_ASSIGN(backbone::OpenedModel opened, backbone::open_model(directory));
    if (Status fits = model::check_fits(spec_, opened.spec); !fits)
      return fail(fits.error().code, fmt::format("{}/config.json does not fit the group: {}",
                                                 directory, fits.error().message));

    // Before anything is loaded: reading gigabytes to find that the last tensor has no room would cost
    // the tenants that serve.
    const uint64_t needed_bytes = weights_->slot_bytes() + model::head_bytes(opened.head) +
                                  HeadScratch::bytes_of(opened.head, options_);
    if (const uint64_t left_bytes = device_.available_bytes(); needed_bytes > left_bytes)
      return fail(Code::kResourceExhausted,
                  fmt::format("{} needs {} of the device's memory, of which {} are left: remove a "
                              "tenant or raise device.memory",
                              directory, format_bytes(needed_bytes), format_bytes(left_bytes)));

    // Given back unless the tenant is published.
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
    auto entry = std::make_unique<TenantEntry>();
    ITIF_ASSIGN(entry->model.head, model::load_head(device_, opened.head, opened.checkpoint));
    ITIF_ASSIGN(entry->scratch, HeadScratch::make(device_, opened.head, options_));
    ITIF_TRY(opened.checkpoint.unchanged());

    entry->model.directory = directory;
    entry->model.slot = slot;
    entry->model.spec = opened.spec;
    entry->model.tokenizer = std::move(opened.tokenizer);
    entry->model.images = std::move(opened.images);
    entry->model.max_tokens = std::min(opened.spec.max_tokens(), options_.max_tokens);
    entry->model.max_text_tokens = std::min(entry->model.max_tokens, opened.max_text_tokens);
    entry->model.weight_bytes =
        weights_->slot_bytes() + entry->model.head.bytes + entry->scratch.bytes();
    weight_bytes_ += entry->model.weight_bytes;
    ++num_tenants_;
    guard.weights = nullptr;
    slots_[slot].store(entry.release(), std::memory_order_release);
    report("ready", 1);
    return slot;
  }

  device::Device& device_;
  const model::BackboneSpec spec_;
  const GroupOptions options_;
  const backbone::Family& family_;
  std::unique_ptr<model::WeightStore> weights_;
  std::vector<std::atomic<TenantEntry*>> slots_;
  std::atomic<uint32_t> num_tenants_ = 0;
  std::atomic<uint64_t> weight_bytes_ = 0;
  // The executor's.
  std::unique_ptr<backbone::Backbone> backbone_;
  std::unique_ptr<backbone::Decoder> decoder_;  // instead
  std::unique_ptr<HeadRunner> heads_;
  GemmScheduler gemms_;
  BatchForms forms_;
  std::vector<Flight> flights_;             // by place
  std::optional<BatchLayout> form_layout_;  // of make_ready()
  // Of groups that generate, instead.
  GenerationForms step_forms_;
  std::optional<StepLayout> step_layout_;
};

}  // namespace

const GenerationForms& Group::generation_forms() const noexcept {
  static const GenerationForms kNone;
  return kNone;
}

device::StreamLimits Group::stream_limits() const noexcept {
  constexpr size_t kAlignment = 16;  // of a piece
  const size_t tokens = options().max_tokens, requests = options().max_requests;
  const bool generates = num_kv_blocks() > 0;
  const uint32_t step_rows =
      generates ? std::max(options().max_beams, generation_forms().steps.max_rows()) : 0;
  device::StreamLimits limits = {
      .max_tokens = std::max(options().max_tokens, step_rows),
      .max_segments = options().max_tokens,
      .max_blocks =
          generates ? backbone::Decoder::max_blocks(options().max_beams, spec().max_positions) : 0};
  // Texts' ids and a step's, and resized pictures.
  if (spec().takes_images())
    limits.unregistered_bytes =
        std::min(requests, tokens / spec().max_tokens()) * (spec().image.values() + kAlignment);
  else
    limits.unregistered_bytes =
        (tokens + step_rows) * sizeof(int32_t) + (requests + 1) * kAlignment;
  // All hidden rows, which are more than other heads give, unless one has more labels than a row has values; and the
  // ids. A step of a decoder brings some candidates a beam.
  if (!generates)
    limits.result_bytes =
        tokens * (spec().hidden + 1) * sizeof(float) + (2 * requests + 1) * kAlignment;
  return limits;
}

Result<std::unique_ptr<Group>> Group::create(device::Device& device,
                                             const model::BackboneSpec& spec,
                                             const GroupOptions& options) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (options.max_tokens == 0 || options.max_requests == 0 || options.max_tenants == 0)
    return fail(Code::kInvalidArgument,
                "max_tokens, max_requests and max_tenants of a group must be at least 1");
  auto group = std::make_unique<BackboneGroup>(device, spec, options, *family);
  ITIF_TRY(group->allocate());
  return group;
}

}  // namespace itif::runtime
