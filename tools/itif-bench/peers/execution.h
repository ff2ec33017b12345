// Runs the same requests of several tenants as ITIF does and as the thesis's baselines do (section
// 5.1.3). All modes use the same operators; they differ only in how tenants share the device:
//
//   itif          one instance: every operator runs once for all tenants
//   seq           tenants run sequentially, each on the whole device
//   multi-stream  tenants run concurrently, each with a thread and a stream, and a share of a
//                 host's CPUs
//   mps           tenants run concurrently, each in a process; on a GPU without the MPS daemon they
//                 take turns
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "limits/bare.h"
#include "peers/run_profile.h"
#include "workload/encoder_setup.h"

namespace itif::bench {

struct Workload {
  std::string preset;    // backbone preset
  uint32_t layers = 0;   // of encoder and decoder; 0: the preset's
  uint32_t steps = 0;    // decoder steps, from the first token on; 0: an encoder
  EncoderCase requests;  // lengths[t]: of tenant t
  Hardware on;           // its threads are shared by all tenants
  // Encoders only. The fusion mode "thesis" pads each request to the longest of its tenant, as
  // FasterTransformer does.
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;
  std::string attention = "itif";  // device::DeviceOptions::attention

  model::BackboneSpec spec() const;
  bool decodes() const { return steps != 0; }
  // REQUIRES: !decodes().
  Encoder::Batch batch() const;
  // Least cosine between the results of two modes for a tenant. It is lower for a decoder, because
  // the order of sums may change its last candidates.
  double least_similarity() const { return decodes() ? 0.7 : 0.999; }
  uint32_t num_tenants() const { return static_cast<uint32_t>(requests.lengths.size()); }
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Computes all requests once and waits.
  virtual Status run() = 0;
  // Results of a run, the same number of values per tenant, for comparing modes.
  virtual Result<std::vector<float>> last_states() = 0;
  // Profile of a run, summed over tenants. Errors: kUnsupported, a decoder.
  virtual Result<RunProfile> profile() = 0;
  // Switches to `mode` if this instance supports it; returns whether it does. seq and itif share an
  // instance, because making its weights takes longer than running it.
  virtual bool switch_to(std::string_view) { return false; }
};

std::span<const std::string_view> execution_modes();
// Errors: those of the device; kUnsupported, a dtype that this CPU lacks; kResourceExhausted, also
// if a tenant's process ended.
Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload);

// The main function of a tenant's process in mode mps, started by execution_mps.cc. Reads commands
// from standard input, one byte each, and answers on standard output. Returns the exit status.
int run_tenant_process(const std::string& workload, const std::string& tenant);

}  // namespace itif::bench
