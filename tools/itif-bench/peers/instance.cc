#include "peers/instance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "workload/decoder_setup.h"
#include "workload/planned_batch.h"

namespace itif::bench {
namespace {

class EncoderInstance final : public Instance {
 public:
  static Result<std::unique_ptr<Instance>> make(device::Device& device, const Workload& workload,
                                                const TenantSpan& tenants) {
    auto instance = std::make_unique<EncoderInstance>(workload, tenants);
    uint32_t rows = kMinPassRows;
    for (const Encoder::Batch& batch : instance->alone_)
      rows = std::max(rows, batch.offsets.back());
    for (const std::vector<uint32_t>& lengths : workload.requests.lengths)
      instance->num_requests_ += static_cast<uint32_t>(lengths.size());
    if (tenants.count > 1) rows = std::max(rows, workload.requests.num_tokens());
    instance->max_rows_ = rows;
    ITIF_ASSIGN(instance->encoder_, Encoder::make(device, workload.spec(), tenants.count, rows,
                                                  {.first_tenant = tenants.first,
                                                   .fusion_mode = workload.fusion_mode}));
    if (tenants.count > 1) ITIF_TRY(instance->plan_together(workload));
    instance->is_gpu_ = device.info().kind == "cuda";
    instance->num_values_ = 8 * std::max(1u, device.info().num_threads);
    ITIF_ASSIGN(instance->values_, device.allocate(instance->num_values_ * sizeof(float)));
    return instance;
  }
  EncoderInstance(const Workload& workload, const TenantSpan& tenants)
      : tenants_(tenants), requests_(workload.batch()) {
    for (uint32_t i = 0; i < tenants.count; ++i)
      alone_.push_back(Encoder::of_tenant(requests_, tenants.first + i, i));
  }

  Status run(const TenantSpan& tenants) override {
    return is_alone(tenants) ? encoder_->forward(alone(tenants)) : forward(*encoder_, together_);
  }
  // The last hidden state of each tenant's last token.
  Result<std::vector<float>> states(const TenantSpan& tenants) override {
    if (is_alone(tenants)) return encoder_->last_states(alone(tenants));
    ITIF_ASSIGN(const std::vector<float> all, last_states(*encoder_, together_));
    std::vector<float> last;
    const uint32_t hidden = encoder_->hidden();
    for (size_t item = 0; item < items_.size(); ++item)
      if (item + 1 == items_.size() || items_[item + 1].slot != items_[item].slot)
        last.insert(last.end(), all.begin() + static_cast<ptrdiff_t>(item * hidden),
                    all.begin() + static_cast<ptrdiff_t>((item + 1) * hidden));
    return last;
  }
  Result<RunProfile> profile(const TenantSpan& tenants) override {
    static const SystemClock clock;
    if (stream_ == nullptr) stream_ = &encoder_->meter(clock);
    stream_->clear();
    ITIF_TRY(run(tenants));
    const device::OperatorFigures total = stream_->total();
    RunProfile profile{.launches = total.launches};
    for (const device::OperatorFigures& one : stream_->operators())
      if (one.launches > 0)
        profile.operator_ns[one.name] = static_cast<double>(is_gpu_ ? one.device_ns : one.call_ns);
    const auto launches = static_cast<double>(total.launches);
    ITIF_ASSIGN(const device::OperatorFigures empty, empty_launches());
    const auto of_empty = [&](uint64_t ns) { return launches * static_cast<double>(ns) / kEmpty; };
    profile.launch_ns = is_gpu_ ? static_cast<double>(total.call_ns) : of_empty(empty.call_ns);
    profile.empty_ns = of_empty(empty.device_ns);
    return profile;
  }

 private:
  static constexpr uint32_t kEmpty = 64;
  // Times kEmpty nearly empty launches, each on all of the device's threads.
  Result<device::OperatorFigures> empty_launches() {
    const kernels::RowRange range{0, num_values_, 0};
    stream_->clear();
    for (uint32_t i = 0; i < kEmpty; ++i)
      stream_->launch(kernels::BiasActivation{
          .x = values_->data(), .bias = {}, .width = 1, .ranges = {&range, 1}});
    ITIF_TRY(stream_->synchronize());
    return stream_->total();
  }
  // The whole workload as the planner of the fusion mode lays it out.
  Status plan_together(const Workload& workload) {
    CHECK(tenants_.first == 0 && tenants_.count == workload.num_tenants());
    for (uint32_t tenant = 0; tenant < tenants_.count; ++tenant)
      for (const uint32_t length : workload.requests.lengths[tenant])
        items_.push_back({.slot = tenant, .num_tokens = length});
    const bool is_thesis = workload.fusion_mode == backbone::FusionMode::kThesis;
    ITIF_ASSIGN(together_,
                make_planned_batch(is_thesis ? "itif" : "packed",
                                   {.limits = encoder_->pass_limits().added_to(
                                        {.max_requests = num_requests_, .max_rows = max_rows_}),
                                    .tables = encoder_->costs().get()},
                                   items_, workload.spec().vocab,
                                   workload.spec().takes_images() ? &requests_ : nullptr));
    return {};
  }
  bool is_alone(const TenantSpan& tenants) const {
    CHECK(tenants.count == 1 || (tenants.count == tenants_.count && tenants_.first == 0));
    return tenants.count == 1;
  }
  const Encoder::Batch& alone(const TenantSpan& tenants) const {
    return alone_[tenants.first - tenants_.first];
  }

  // A pass of the planner itif has at least this many rows of room, as in the appliance.
  static constexpr uint32_t kMinPassRows = 1024;

  const TenantSpan tenants_;
  const Encoder::Batch requests_;  // of all tenants of the workload
  std::vector<Encoder::Batch> alone_;
  std::vector<plan::Item> items_;  // of all tenants; empty: one tenant
  PlannedBatch together_;
  uint32_t num_requests_ = 0, max_rows_ = 0;
  bool is_gpu_ = false;
  uint32_t num_values_ = 0;
  std::unique_ptr<device::Buffer> values_;  // operand of the nearly empty launches
  std::unique_ptr<Encoder> encoder_;
  device::MeteredStream* stream_ = nullptr;  // owned by the encoder; set by the first profile
};

// One sequence per tenant. Its tokens are given in advance, so that every instance computes the
// same steps.
class DecoderInstance final : public Instance {
 public:
  static Result<std::unique_ptr<Instance>> make(device::Device& device, const Workload& workload,
                                                const TenantSpan& tenants) {
    auto instance = std::make_unique<DecoderInstance>(workload, tenants);
    ITIF_ASSIGN(instance->decoder_, DecoderSetup::make(device, workload.spec(),
                                                       {.first_tenant = tenants.first,
                                                        .num_tenants = tenants.count,
                                                        .max_sequences = tenants.count,
                                                        .max_tokens = workload.steps}));
    instance->decoder_->encode_sources(instance->rows(tenants, 0));
    return instance;
  }
  DecoderInstance(const Workload& workload, const TenantSpan& tenants)
      : steps_(workload.steps), tenants_(tenants) {}

  Status run(const TenantSpan& tenants) override {
    for (uint32_t step = 0; step < steps_; ++step) ITIF_TRY(decoder_->found(rows(tenants, step)));
    return {};
  }
  // Counts of each token among the candidates of the last step, by token id.
  Result<std::vector<float>> states(const TenantSpan& tenants) override {
    constexpr size_t kWidth = 1 << 16;
    ITIF_TRY(run(tenants));
    ITIF_ASSIGN(const auto tokens, decoder_->found(rows(tenants, steps_ - 1)));
    std::vector<float> counts(tenants.count * kWidth);
    for (size_t i = 0; i < tokens.size(); ++i)
      counts[i / (tokens.size() / tenants.count) * kWidth + static_cast<size_t>(tokens[i])] += 1;
    return counts;
  }
  Result<RunProfile> profile(const TenantSpan&) override {
    return fail(Code::kUnsupported, "steps of a decoder are not profiled by operator");
  }

 private:
  StepRows rows(const TenantSpan& tenants, uint32_t position) const {
    StepRows rows(position, steps_);
    for (uint32_t i = 0; i < tenants.count; ++i) {
      const uint32_t slot = tenants.first - tenants_.first + i;
      rows.add({.slot = slot, .index = slot, .seed = tenants.first + i});
    }
    return rows;
  }

  const uint32_t steps_;
  const TenantSpan tenants_;
  std::unique_ptr<DecoderSetup> decoder_;
};

}  // namespace

Result<std::unique_ptr<Instance>> make_instance(device::Device& device, const Workload& workload,
                                                const TenantSpan& tenants) {
  return workload.decodes() ? DecoderInstance::make(device, workload, tenants)
                            : EncoderInstance::make(device, workload, tenants);
}

Result<uint64_t> weight_bytes_of_tenant(device::Device& device, const Workload& workload) {
  const model::BackboneSpec spec = workload.spec();
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  ITIF_ASSIGN(const auto store,
              model::WeightStore::create(
                  device, backbone::weight_kinds(*family, spec, workload.fusion_mode), 1));
  return store->slot_bytes();
}

}  // namespace itif::bench
