// Runs the same requests of several tenants as ITIF does and as the thesis's baselines do (section
// 5.1.3). The modes differ in how tenants share the device:
//
//   seq           tenants run sequentially, each on the whole device
//   multi-stream  tenants run concurrently, each with a thread and a stream, and a share of a
//                 host's CPUs that is proportional to its tokens
//   mps           tenants run concurrently, each in a process, with the same share; on a GPU
//                 without the MPS daemon they take turns
//   itif          one instance for all tenants; the planner `itif` lays out the batch (sections
//                 4.1.1 and 4.1.2), and the device executes the plan's GEMM calls
//   packed        one instance for all tenants; the planner `packed` lays out the batch
//   seq-fused     as seq, with the operators of packed
//
// The first four have the operators of the thesis (fusion mode "thesis"). There a tenant's requests
// are padded to its longest, as FasterTransformer does, and itif pads as planned. The last two have
// our fused operators and no padding. A decoder has only the first four, all with fused operators:
// its steps are not planned.
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
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;  // set by make_execution()
  std::string attention = "itif";  // device::DeviceOptions::attention

  model::BackboneSpec spec() const;
  bool decodes() const { return steps != 0; }
  // The requests as their tenants run them alone. REQUIRES: !decodes().
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
  // instance, as do seq-fused and packed, because making its weights takes longer than running it.
  virtual bool switch_to(std::string_view) { return false; }
};

// In the order of the thesis's tables.
std::span<const std::string_view> execution_modes(const Workload& workload);
// Errors: those of the device; kUnsupported, a dtype that this CPU lacks; kResourceExhausted, also
// if a tenant's process ended.
Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload);

// The main function of a tenant's process in mode mps, started by execution_mps.cc. Reads commands
// from standard input, one byte each, and answers on standard output. Returns the exit status.
int run_tenant_process(const std::string& workload, const std::string& tenant);

}  // namespace itif::bench
