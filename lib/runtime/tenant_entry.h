// An admitted tenant as a group keeps it: the model that everyone may read, and what its head needs
// while it runs, which is the executor's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "model/tenant_model.h"
#include "runtime/group.h"
#include "wire/classes.h"

namespace itif::runtime {

// Allocated at admission, so that serving allocates nothing.
struct HeadScratch {
  std::unique_ptr<device::Buffer> logits;  // f32 [requests or tokens, labels]; null: no classifier
  std::vector<std::unique_ptr<device::Buffer>> dense;  // f32 [requests, n], one a dense layer
  // Of a classifier's outputs, [requests, labels], by the batch's place among those in flight.
  std::array<std::vector<float>, Group::kMaxInFlight> host_logits;
  std::vector<wire::ClassEntry> classes;  // [labels], of a classifier

  // What make() will take of device memory.
  static uint64_t bytes_of(const model::HeadSpec& head, const GroupOptions& options);
  // Errors: kResourceExhausted.
  static Result<HeadScratch> make(device::Device& device, const model::HeadSpec& head,
                                  const GroupOptions& options);
  uint64_t bytes() const;  // of device memory
};

struct TenantEntry {
  model::TenantModel model;
  HeadScratch scratch;
};

}  // namespace itif::runtime
