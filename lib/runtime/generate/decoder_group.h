// A group that generates token by token. GenerationExecutor runs its sequences.
//
// Sources are encoded once; a step decodes one token for every live beam. Keys and values are in a
// cache of blocks, which the executor hands out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbone/decoder.h"
#include "runtime/cost/gemm_scheduler.h"
#include "runtime/generate/step_layout.h"
#include "runtime/group.h"
#include "runtime/tenant_slots.h"

namespace itif::runtime {

class DecoderGroup final : public Group {
 public:
  // Reserves the slabs, the workspace and the K/V cache and prepares the device's GEMMs, so that
  // serving creates nothing. `device` outlives the group. REQUIRES: the family generates. Errors:
  // those of EncoderGroup::create.
  static Result<std::unique_ptr<DecoderGroup>> create(device::Device& device,
                                                      const model::BackboneSpec& spec,
                                                      const GroupOptions& options);

  const model::BackboneSpec& spec() const noexcept override { return tenants_->spec(); }
  const GroupOptions& options() const noexcept override { return tenants_->options(); }
  Result<uint32_t> admit(const std::string& directory, const model::Progress& progress) override {
    return tenants_->admit(directory, progress);
  }
  void release(uint32_t slot) override { tenants_->release(slot); }
  const model::TenantModel* model(uint32_t slot) const noexcept override {
    return tenants_->model(slot);
  }
  uint32_t num_tenants() const noexcept override { return tenants_->num_tenants(); }
  uint64_t weight_bytes() const noexcept override { return tenants_->weight_bytes(); }
  // The cache included.
  uint64_t workspace_bytes() const noexcept override;
  std::vector<backbone::GemmUse> gemms() const override { return tenants_->gemms(); }
  void set_costs(std::shared_ptr<const plan::CostTables> costs) override {
    gemms_.set_costs(std::move(costs));
  }
  Result<std::unique_ptr<RequestExecutor>> make_executor(device::Stream& stream, const Clock& clock,
                                                         const ExecutorOptions& options) override;
  device::StreamLimits stream_limits() const noexcept override;
  size_t num_buckets() const noexcept override;
  Status warm_up(device::Stream& stream, size_t bucket) noexcept override;
  bool generates() const noexcept override { return true; }
  uint32_t num_kv_blocks() const noexcept override { return decoder_->num_blocks(); }

  // The graph buckets of sources and steps.
  const GenerationBuckets& buckets() const noexcept { return buckets_; }
  // Encodes what layout.build_sources() laid out.
  void launch_sources(device::Stream& stream, const StepLayout& layout) noexcept;
  // Launches the copies and the step that layout.build_step() laid out, after any sources.
  backbone::StepResult launch_step(device::Stream& stream, const StepLayout& layout) noexcept;

 private:
  DecoderGroup(const device::DeviceInfo& device, std::unique_ptr<TenantSlots> tenants);
  uint32_t max_step_rows() const noexcept;

  std::unique_ptr<TenantSlots> tenants_;
  // Used by the executor's thread.
  std::unique_ptr<backbone::Decoder> decoder_;
  GemmScheduler gemms_;
  const GenerationBuckets buckets_;
  StepLayout bucket_layout_;  // for warm_up()
};

}  // namespace itif::runtime
