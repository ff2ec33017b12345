// An admitted tenant in a group: the model, which any thread may read, and the scratch of its head,
// which only the executor uses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/adapter_weights.h"
#include "model/tenant_model.h"
#include "runtime/group.h"
#include "wire/classes.h"

namespace itif::runtime {

// Allocated at admission, so that serving allocates nothing. Empty for heads that generate.
struct HeadScratch {
  std::unique_ptr<device::Buffer> logits;  // f32 [requests or tokens, labels]; null: no classifier
  std::vector<std::unique_ptr<device::Buffer>> dense;  // f32 [requests, n], one per dense layer
  // A classifier's outputs, [requests, labels], by flight index.
  std::array<std::vector<float>, device::Stream::kMaxPending> host_logits;
  std::vector<wire::ClassEntry> classes;  // [labels], for classifiers

  // Returns the device memory that make() allocates.
  static uint64_t bytes_of(const model::HeadSpec& head, const GroupOptions& options);
  // Errors: kResourceExhausted.
  static Result<HeadScratch> make(device::Device& device, const model::HeadSpec& head,
                                  const GroupOptions& options);
  uint64_t bytes() const;  // of device memory
};

struct AdmittedTenant {
  model::TenantModel model;
  HeadScratch scratch;
  std::unique_ptr<const model::AdapterWeights> adapter;  // null: none, or it is merged
  std::string base_version;  // Checkpoint::version() of the model in the weight slot; empty: none

  // Device memory that no other tenant shares.
  uint64_t own_bytes() const { return scratch.bytes() + model.adapter_bytes; }
};

}  // namespace itif::runtime
