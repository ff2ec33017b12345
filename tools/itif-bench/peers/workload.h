// The requests of several tenants that every execution mode runs, and the hardware for them.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "limits/bare_types.h"
#include "workload/encoder_setup.h"

namespace itif::bench {

struct Workload {
  std::string preset;    // backbone preset
  uint32_t layers = 0;   // of encoder and decoder; 0: the preset's
  uint32_t steps = 0;    // decoder steps, from the first token on; 0: an encoder
  EncoderCase requests;  // lengths[t]: of tenant t
  Hardware on;           // its threads are shared by all tenants
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;  // set by make_execution()
  std::string attention = "itif";  // device::DeviceOptions::attention

  model::BackboneSpec spec() const;
  bool decodes() const { return steps != 0; }
  // The requests as their tenants run them alone. REQUIRES: !decodes().
  Encoder::Batch batch() const;
  // Least cosine between the results of two modes for a tenant. It is lower for a decoder, because
  // the order of sums may change its last candidates.
  double min_similarity() const { return decodes() ? 0.7 : 0.999; }
  uint32_t num_tenants() const { return static_cast<uint32_t>(requests.lengths.size()); }
};

// Threads of a tenant if all tenants run concurrently: each has one, and those that are left go
// where the tokens per thread are most.
uint32_t threads_of_tenant(const Workload& workload, uint32_t tenant);
Result<std::unique_ptr<device::Device>> open_device(const Workload& workload, uint32_t threads);

}  // namespace itif::bench
