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
#include "runtime/admitted_tenant.h"
#include "runtime/batch/batch_layout.h"
#include "runtime/batch/head_runner.h"
#include "runtime/cost/gemm_scheduler.h"
#include "runtime/generate/step_launch.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

// A K/V cache takes at most 1/kCacheShare of the device's memory; the rest is for weights and other
// groups.
constexpr uint64_t kCacheShare = 4;
// Most rows in a step bucket per live beam: each tenant's beams take separate, padded ranges.
constexpr uint32_t kStepPadding = 8;

void drop_result(request::Request& request, StatusCode status, const char* detail) noexcept {
  std::free(request.result.data);
  request.result = {};
  request.status = status;
  request.detail = detail;
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
    const uint32_t max_bucket_rows = device.info().max_bucket_rows;
    if (family.make_decoder) {
      step_buckets_ = {.sources = GraphBuckets(std::min(max_bucket_rows, options.max_tokens), 0),
                       .steps = GraphBuckets::of_steps(
                           std::min(max_bucket_rows, kStepPadding * options.max_beams))};
      step_layout_.emplace(options.max_beams, options.max_tokens, spec.max_positions,
                           step_buckets_);
      return;
    }
    if (options.fusion_mode == backbone::FusionMode::kFused)
      buckets_ = GraphBuckets(std::min(max_bucket_rows, options.max_tokens),
                              spec.takes_images() ? spec.max_tokens() : 0);
    for (uint32_t flight_index = 0; flight_index < kMaxInFlight; ++flight_index)
      flights_.emplace_back(options, buckets_, flight_index);
    bucket_layout_.emplace(options, buckets_, 0);
  }

  ~BackboneGroup() override {
    for (auto& slot : slots_) delete slot.load();
  }

  Status allocate() {
    if (family_.make_decoder) return allocate_decoder();
    ITIF_ASSIGN(backbone_, family_.make(device_, spec_,
                                        {.max_rows = options_.max_tokens,
                                         .fusion_mode = options_.fusion_mode}));
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
    // Third-party code and containers may throw on a very large or malformed file.
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
    AdmittedTenant* entry = slots_[slot].exchange(nullptr);
    CHECK(entry);
    weight_bytes_ -= entry->model.weight_bytes;
    --num_tenants_;
    delete entry;
    weights_->release(slot);
  }

  const model::TenantModel* model(uint32_t slot) const noexcept override {
    const AdmittedTenant* entry = this->entry(slot);
    return entry ? &entry->model : nullptr;
  }

  backbone::Decoder* decoder() noexcept override { return decoder_.get(); }
  uint32_t num_kv_blocks() const noexcept override { return decoder_ ? decoder_->num_blocks() : 0; }
  model::WeightView weights() const noexcept override { return weights_->view(); }

  const GenerationBuckets& generation_buckets() const noexcept override { return step_buckets_; }

  size_t num_buckets() const noexcept override {
    if (decoder_) return step_buckets_.sources.all().size() + step_buckets_.steps.all().size();
    return buckets_.all().size();
  }
  Status warm_up(device::Stream& stream, size_t bucket) noexcept override {
    if (!decoder_) {
      bucket_layout_->build(buckets_.all()[bucket]);
      (void)launch_backbone(stream, bucket_layout_->pass());
    } else if (const auto steps = step_buckets_.steps.all(); bucket < steps.size()) {
      step_layout_->build_step(steps[bucket]);
      (void)launch_step(*this, stream, *step_layout_);
    } else {
      step_layout_->build_sources(step_buckets_.sources.all()[bucket - steps.size()]);
      launch_sources(*this, stream, *step_layout_);
    }
    return stream.warm_up();
  }

  uint32_t num_tenants() const noexcept override { return num_tenants_; }
  uint64_t weight_bytes() const noexcept override { return weight_bytes_; }
  uint64_t workspace_bytes() const noexcept override {
    if (decoder_) return decoder_->workspace_bytes() + decoder_->cache_bytes();
    return backbone_->workspace_bytes() + heads_->workspace_bytes();
  }

  void begin(device::Stream& stream, Batch& batch, uint32_t flight_index) noexcept override {
    CHECK(backbone_ != nullptr);
    Flight& flight = flights_[flight_index];
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

  Status finish(Batch& batch, uint32_t flight_index, Status computed) noexcept override {
    const Flight& flight = flights_[flight_index];
    if (flight.layout.live().empty()) return {};
    if (!computed) {
      const bool is_out_of_memory = computed.error().code == Code::kResourceExhausted;
      for (const BatchRequest& segment : batch.segments) {
        if (is_out_of_memory)
          drop_result(*segment.request, StatusCode::kOverloaded,
                      "the device has no memory for the batch");
        else
          drop_result(*segment.request, StatusCode::kDeviceFailed, "the group's device has failed");
      }
      return is_out_of_memory ? Status() : std::move(computed);
    }
    heads_->finish(flight.layout);
    if (flight.has_ids) refuse_unknown_ids(flight);
    return {};
  }

 private:
  // Ends the graph segment after the backbone: heads and results differ between otherwise equal
  // batches.
  backbone::Hidden launch_backbone(device::Stream& stream, backbone::Pass pass) noexcept {
    // A bucket's GEMM is one concurrent call: the captured graph must not depend on tenants.
    pass.gemm_mode = pass.has_bucket ? kernels::GemmMode::kConcurrent : gemm_modes(pass.ranges);
    const backbone::Hidden hidden = backbone_->launch(stream, weights_->view(), pass);
    stream.end_graph_segment();
    return hidden;
  }

  // A batch between begin() and finish(): its host memory. All batches share device memory, since
  // their launches run sequentially.
  struct Flight {
    Flight(const GroupOptions& options, const GraphBuckets& buckets, uint32_t flight_index)
        : layout(options, buckets, flight_index), ids(options.max_tokens) {}
    BatchLayout layout;
    std::vector<int32_t> ids;  // [max_tokens], as gathered
    bool has_ids = false;
  };

  uint32_t max_step_rows() const noexcept {
    return std::max(options_.max_beams, step_buckets_.steps.max_rows());
  }
  std::vector<model::WeightKind> kinds_of(const model::BackboneSpec& spec) const {
    return backbone::weight_kinds(
        family_, spec, family_.make_decoder ? backbone::FusionMode::kFused : options_.fusion_mode);
  }
  AdmittedTenant* entry(uint32_t slot) const noexcept {
    return slot < slots_.size() ? slots_[slot].load(std::memory_order_acquire) : nullptr;
  }

  // Ids are known only after the gather. Rows never mix, so a bad id affects only its own segment.
  static void refuse_unknown_ids(const Flight& flight) noexcept {
    for (const BatchLayout::Live& live : flight.layout.live()) {
      const std::span<const int32_t> ids =
          std::span(flight.ids).subspan(live.first_row, live.request->num_tokens);
      const auto vocab = static_cast<int32_t>(live.tenant->model.spec.vocab);
      if (std::ranges::any_of(ids, [vocab](int32_t id) { return id < 0 || id >= vocab; }))
        drop_result(*live.request, StatusCode::kMalformed,
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
    auto entry = std::make_unique<AdmittedTenant>();
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
  std::vector<std::atomic<AdmittedTenant*>> slots_;
  std::atomic<uint32_t> num_tenants_ = 0;
  std::atomic<uint64_t> weight_bytes_ = 0;
  // Used by the executor's thread.
  std::unique_ptr<backbone::Backbone> backbone_;  // null in groups that generate
  std::unique_ptr<backbone::Decoder> decoder_;    // null in other groups
  std::unique_ptr<HeadRunner> heads_;
  GemmScheduler gemms_;
  GraphBuckets buckets_;
  std::vector<Flight> flights_;               // by flight_index
  std::optional<BatchLayout> bucket_layout_;  // for warm_up()
  // Used instead in groups that generate.
  GenerationBuckets step_buckets_;
  std::optional<StepLayout> step_layout_;
};

}  // namespace

const GenerationBuckets& Group::generation_buckets() const noexcept {
  static const GenerationBuckets kNone;
  return kNone;
}

device::StreamLimits Group::stream_limits() const noexcept {
  constexpr size_t kAlignment = 16;  // alignment of each piece
  const size_t tokens = options().max_tokens, requests = options().max_requests;
  const bool generates = num_kv_blocks() > 0;
  const uint32_t step_rows =
      generates ? std::max(options().max_beams, generation_buckets().steps.max_rows()) : 0;
  device::StreamLimits limits = {
      .max_tokens = std::max(options().max_tokens, step_rows),
      .max_segments = options().max_tokens,
      .max_blocks =
          generates ? backbone::Decoder::max_blocks(options().max_beams, spec().max_positions) : 0};
  // Resized pictures, or the ids of texts and of a step.
  if (spec().takes_images())
    limits.unregistered_bytes =
        std::min(requests, tokens / spec().max_tokens()) * (spec().image.values() + kAlignment);
  else
    limits.unregistered_bytes =
        (tokens + step_rows) * sizeof(int32_t) + (requests + 1) * kAlignment;
  // All hidden rows, and the ids. No other head gives more, unless it has more labels than a row
  // has values. A decoder's step copies only a few candidates per beam.
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
