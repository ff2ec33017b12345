#include "runtime/batch/make_encoder_group.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/check.h"
#include "runtime/admission.h"
#include "runtime/batch/batch_layout.h"
#include "runtime/batch/executor.h"
#include "runtime/batch/head_runner.h"
#include "runtime/cost/pass_gemms.h"
#include "runtime/cost/pass_limits.h"
#include "runtime/slot_group.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

void drop_result(request::Request& request, const Refusal& why) noexcept {
  std::free(request.result.data);
  request.result = {};
  request.status = why.status;
  request.detail = why.detail;
}

GraphBuckets encoder_buckets(const device::DeviceInfo& device, const model::BackboneSpec& spec,
                             const GroupOptions& options, const EncoderGroupOptions& encoder) {
  if (encoder.fusion_mode != backbone::FusionMode::kFused) return {};
  return GraphBuckets(std::min(device.max_bucket_rows, options.max_tokens),
                      spec.takes_images() ? spec.max_tokens() : 0);
}

class BackboneEncoder final : public SlotGroup<EncoderGroup> {
 public:
  BackboneEncoder(device::Device& device, std::unique_ptr<TenantSlots> tenants,
                  const EncoderGroupOptions& encoder)
      : SlotGroup(std::move(tenants)),
        gemms_(device.info().num_threads, this->tenants().weights().slabs.size(),
               {.max_ranges = options().max_requests,
                .max_rows = options().max_tokens,
                .joins = options().shares_weights}),
        fusion_mode_(encoder.fusion_mode),
        pass_limits_(runtime::pass_limits(device.info(), gemms())),
        buckets_(encoder_buckets(device.info(), spec(), options(), encoder)),
        spare_layout_(options(), buckets_, this->tenants().modules(), 0) {
    for (uint32_t flight_index = 0; flight_index < kMaxInFlight; ++flight_index)
      flights_.emplace_back(options(), buckets_, this->tenants().modules(), flight_index);
  }

  Status allocate(device::Device& device, const backbone::Family& family,
                  const EncoderGroupOptions& encoder) {
    ITIF_ASSIGN(backbone_, family.make(device, spec(),
                                       {.max_rows = options().max_tokens,
                                        .fusion_mode = encoder.fusion_mode}));
    ITIF_ASSIGN(heads_, HeadRunner::make(device, spec(), options(), tenants().head_scratch()));
    return {};
  }

  uint64_t workspace_bytes() const noexcept override {
    return backbone_->workspace_bytes() + heads_->workspace_bytes();
  }
  void set_costs(std::shared_ptr<const plan::CostTables> costs) override {
    gemms_.set_costs(std::move(costs));
  }

  Result<std::unique_ptr<RequestExecutor>> make_executor(device::Stream& stream, const Clock& clock,
                                                         const ExecutorOptions& options) override {
    return GroupExecutor::create(*this, stream, clock, options);
  }

  PassLimits pass_limits() const noexcept override { return pass_limits_; }

  std::shared_ptr<const PassWeights> pass_weights() const override {
    return std::make_shared<PassWeights>(
        PassWeights{.view =
                        [this] {
                          model::WeightView view = tenants().weights();
                          if (!options().shares_weights) view.numbers = {};
                          return view;
                        },
                    .kinds = tenants().weight_kinds(),
                    .update_shares = [this](uint32_t slot) -> std::span<const float> {
                      const AdmittedTenant* tenant = tenants().find(slot);
                      if (tenant == nullptr || !tenant->adapter) return {};
                      return tenant->adapter->update_shares();
                    }});
  }

  // No pass is measured if no memory is left.
  ProfiledWork profiled_work() override {
    auto slot = tenants().borrow_slot();
    if (!slot) return {.max_pass_tenants = pass_limits_.max_tenants};
    return {.has_one_length = spec().takes_images(),
            .max_pass_tenants = pass_limits_.max_tenants,
            .launch_pass = [this, slot = *slot](device::Stream& stream, uint32_t num_requests,
                                                uint32_t num_tokens) {
              spare_layout_.build(*slot, spec(), num_requests, num_tokens);
              (void)launch_backbone(stream, spare_layout_.pass());
            }};
  }

  GraphBuckets graph_buckets() const override { return buckets_; }
  size_t num_buckets() const noexcept override { return buckets_.all().size(); }
  Status warm_up(device::Stream& stream, size_t bucket) noexcept override {
    spare_layout_.build(buckets_.all()[bucket]);
    (void)launch_backbone(stream, spare_layout_.pass());
    return stream.warm_up();
  }

  void begin(device::Stream& stream, Batch& batch, uint32_t flight_index) noexcept override {
    Flight& flight = flights_[flight_index];
    BatchLayout& layout = flight.layout;
    layout.build(batch, [this](uint32_t slot) { return tenants().find(slot); });
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
      heads_->drop(flight.layout);
      const std::optional<Refusal> why = refusal_of(computed.error());
      for (const BatchRequest& segment : batch.segments)
        drop_result(*segment.request, why.value_or(kDeviceFailure));
      return why ? Status() : std::move(computed);
    }
    heads_->finish(flight.layout);
    if (flight.has_ids) refuse_unknown_ids(flight);
    return {};
  }

  bool can_share_scores() const noexcept override {
    return fusion_mode_ == backbone::FusionMode::kFused;
  }

 private:
  // A batch between begin() and finish(): its host memory. All batches share device memory, since
  // their launches run sequentially.
  struct Flight {
    Flight(const GroupOptions& options, const GraphBuckets& buckets,
           const model::ModuleNumbers& modules, uint32_t flight_index)
        : layout(options, buckets, modules, flight_index), ids(options.max_tokens) {}
    BatchLayout layout;
    std::vector<int32_t> ids;  // [max_tokens], as gathered
    bool has_ids = false;
  };

  // Ends the graph segment after the backbone: heads and results differ between otherwise equal
  // batches.
  backbone::Hidden launch_backbone(device::Stream& stream, backbone::Pass pass) noexcept {
    const model::WeightView weights = tenants().weights();
    gemms_.schedule(weights, pass);
    const backbone::Hidden hidden = backbone_->launch(stream, weights, pass);
    stream.end_graph_segment();
    return hidden;
  }

  // Ids are known only after the gather. Rows never mix, so a bad id affects only its own request.
  static void refuse_unknown_ids(const Flight& flight) noexcept {
    for (const BatchLayout::Live& live : flight.layout.live()) {
      const std::span<const int32_t> ids =
          std::span(flight.ids).subspan(live.first_row, live.request->num_tokens);
      const auto vocab = static_cast<int32_t>(live.tenant->model.spec.vocab);
      if (std::ranges::any_of(ids, [vocab](int32_t id) { return id < 0 || id >= vocab; }))
        drop_result(*live.request,
                    {StatusCode::kMalformed, "a token id is outside the model's vocabulary"});
    }
  }

  // Used by the executor's thread.
  std::unique_ptr<backbone::Backbone> backbone_;
  std::unique_ptr<HeadRunner> heads_;
  PassGemms gemms_;
  const backbone::FusionMode fusion_mode_;
  const PassLimits pass_limits_;
  const GraphBuckets buckets_;
  std::vector<Flight> flights_;  // by flight_index
  BatchLayout spare_layout_;     // for warm_up() and sample passes
};

}  // namespace

Result<std::unique_ptr<EncoderGroup>> make_encoder_group(device::Device& device,
                                                         const model::BackboneSpec& spec,
                                                         const GroupOptions& options,
                                                         const EncoderGroupOptions& encoder) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  CHECK(family->make);
  ITIF_ASSIGN(auto tenants,
              TenantSlots::create(device, *family, spec, options, encoder.fusion_mode));
  auto group = std::make_unique<BackboneEncoder>(device, std::move(tenants), encoder);
  ITIF_TRY(group->allocate(device, *family, encoder));
  return group;
}

}  // namespace itif::runtime
