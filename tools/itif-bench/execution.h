// The same requests of several tenants, executed as ITIF does and as the thesis's baselines do (section
// 5.1.3), with the same operators, so that what differs is how tenants share the device:
//
//   itif          one instance: every operator runs once for all tenants
//   seq           tenants use the device in turn, each with all of it
//   multi-stream  a thread and stream a tenant at once; of a host, the CPUs are divided among them
//   mps           the same with a process a tenant; on a GPU they compute at once only where the MPS daemon runs
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bare.h"
#include "base/error.h"
#include "encoder_setup.h"
#include "run_profile.h"

namespace itif::bench {

struct Workload {
  std::string preset;    // of the backbone
  uint32_t layers = 0;   // of encoder and decoder; 0: the preset's
  uint32_t steps = 0;    // of a decoder, from the first token on; 0: an encoder
  EncoderCase requests;  // lengths[t]: tenant t's
  Hardware on;           // its threads: in all
  // Of encoders. In the thesis's form each request is padded to its tenant's longest, as FasterTransformer's batches are.
  backbone::Fidelity fidelity = backbone::Fidelity::kFused;
  std::string attention = "itif";  // device::DeviceOptions::attention

  model::BackboneSpec spec() const;
  bool decodes() const { return steps != 0; }
  // REQUIRES: !decodes().
  Encoder::Batch batch() const;
  // Of what two modes compute for a tenant, as a cosine: the order of sums may move the last of a
  // decoder's candidates.
  double least_similarity() const { return decodes() ? 0.7 : 0.999; }
  uint32_t num_tenants() const { return static_cast<uint32_t>(requests.lengths.size()); }
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Computes all requests once and waits.
  virtual Status run() = 0;
  // As many values a tenant of a run: to compare modes.
  virtual Result<std::vector<float>> last_states() = 0;
  // Of a run, all tenants' together. Errors: kUnsupported, a decoder.
  virtual Result<RunProfile> profile() = 0;
  // Whether it can run as `mode`, too, and from now on does: seq and itif are one instance, whose weights
  // take longer to make than to run.
  virtual bool switch_to(std::string_view) { return false; }
};

std::span<const std::string_view> execution_modes();
// Errors: of the device; kUnsupported, a dtype that this CPU lacks; kResourceExhausted, also if a
// tenant's process ended.
Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload);

// The process of one tenant in mode mps, which execution_mps.cc starts: reads commands from standard
// input, one byte each, and answers on standard output. Returns the exit status.
int run_tenant_process(const std::string& workload, const std::string& tenant);

}  // namespace itif::bench
