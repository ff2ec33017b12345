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

#include <string_view>
#include <vector>

#include "base/error.h"
#include "peers/run_profile.h"

namespace itif::bench {

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

}  // namespace itif::bench
