// The benches, one file each. A bench checks what it times, then prints and reports medians.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backbone/fidelity.h"
#include "base/error.h"
#include "report.h"
#include "timing.h"

namespace itif::bench {

struct BenchOptions {
  bool quick = false;
  uint32_t threads = 0;             // 0: all CPUs
  std::string device = "auto";      // auto, host, cuda
  std::string attention = "itif";   // itif, cudnn; of the benches that attend
  std::vector<std::string> dtypes;  // those that the CPU lacks are skipped
  std::vector<std::string> cases;   // empty: all
  // Of the forward passes of encoder, tenants, batching, mixed and scaling.
  std::string fidelity = "fused";

  Effort effort() const {
    return quick ? Effort{.seconds = 0.6, .least = 5, .most = 500} : Effort{};
  }
  // REQUIRES: fidelity is one there is.
  backbone::Fidelity form() const { return backbone::parse_fidelity(fidelity).value(); }
  bool wants(const std::string& name) const {
    if (cases.empty()) return true;
    for (const std::string& wanted : cases)
      if (wanted == name) return true;
    return false;
  }
};

struct Bench {
  const char* name;
  const char* description;
  const char* limit_name;  // what its rows' limit is
  Status (*run)(const BenchOptions& options, Report& report);
  bool attends = true;  // through Stream::attention, so that it matters whose that is
};

// GEMMs bare and through the device, in GFLOP/s.
Status bench_gemm(const BenchOptions& options, Report& report);
// GEMMs of several tenants, by how they share the device.
Status bench_gemm_choice(const BenchOptions& options, Report& report);
// BERT-base forward passes against the same GEMMs run bare.
Status bench_encoder(const BenchOptions& options, Report& report);

// Each operator at BERT-base's sizes against a copy of as many bytes, attention against GEMMs.
Status bench_operators(const BenchOptions& options, Report& report);

// Payloads from packets, in GB/s over the bus.
Status bench_gather(const BenchOptions& options, Report& report);

// The thesis's Table 5.2, continued to 64 tenants.
Status bench_tenants(const BenchOptions& options, Report& report);
// Table 5.2's row of Decoding: a step of the decoder over given memories.
Status bench_decoder(const BenchOptions& options, Report& report);
// The thesis's Figures 5.2 to 5.4.
Status bench_batching(const BenchOptions& options, Report& report);
// Planners side by side over batches of mixed lengths, in tokens/s.
Status bench_mixed(const BenchOptions& options, Report& report);
// Tokens/s, latency and memory against each dimension alone.
Status bench_scaling(const BenchOptions& options, Report& report);

// Planning a batch of 64 requests, by planner, against 2 % of the batch's own time.
Status bench_plan(const BenchOptions& options, Report& report);

// Texts through a group's executor, batches one after another and overlapped.
Status bench_overlap(const BenchOptions& options, Report& report);

}  // namespace itif::bench
