// The benches, one file each. A bench checks what it times, then prints and reports medians.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backbone/fusion_mode.h"
#include "base/error.h"
#include "report/report.h"
#include "report/timing.h"

namespace itif::bench {

struct BenchOptions {
  bool quick = false;
  uint32_t threads = 0;             // 0: all CPUs
  std::string device = "auto";      // auto, host, cuda
  std::string attention = "itif";   // itif, cudnn; for benches with Bench::attends
  std::vector<std::string> dtypes;  // types that the CPU lacks are skipped
  std::vector<std::string> cases;   // empty: all
  bool skip_unknown = false;        // ignore names of `cases` that the bench does not have
  // With `cases`: all names that the bench has asked for, in order. Copies share them.
  std::shared_ptr<std::vector<std::string>> known = std::make_shared<std::vector<std::string>>();
  std::string fusion = "fused";  // fusion mode, for benches with Bench::chooses_fusion
  double seconds = 0;  // of each run, for benches with Bench::runs_for_seconds; 0: their default
  // For benches with Bench::is_script: the program (empty: that of the source tree), and further
  // arguments for it.
  std::string script;
  std::vector<std::string> more;

  Effort effort() const {
    return quick ? Effort{.seconds = 0.6, .least = 5, .most = 500} : Effort{};
  }
  double run_seconds() const { return seconds > 0 ? seconds : quick ? 0.6 : 4; }
  // REQUIRES: fusion is "fused" or "thesis".
  backbone::FusionMode fusion_mode() const { return backbone::parse_fusion_mode(fusion).value(); }
  bool wants(const std::string& name) const {
    if (cases.empty()) return true;
    if (std::ranges::find(*known, name) == known->end()) known->push_back(name);
    return std::ranges::find(cases, name) != cases.end();
  }
  // Returns true if the run wants a case of one of these names. Costly preparations ask for all
  // names first.
  bool wants_any(const std::vector<std::string>& names) const {
    bool wanted = cases.empty();
    for (const std::string& name : names) wanted |= wants(name);
    return wanted;
  }
  // Returns the wanted names that the bench, which has run, does not have.
  std::vector<std::string> unknown_cases() const {
    std::vector<std::string> unknown;
    for (const std::string& name : cases)
      if (std::ranges::find(*known, name) == known->end()) unknown.push_back(name);
    return unknown;
  }
};

struct Bench {
  const char* name;
  const char* description;
  const char* limit_name;  // names the limit of its rows
  Status (*run)(const BenchOptions& options, Report& report);
  bool attends = true;            // launches kernels::Attention, so that --attention matters
  bool chooses_fusion = false;    // --fidelity sets the fusion mode of its forward passes
  bool runs_for_seconds = false;  // --seconds sets the measured time of its runs
  bool is_script = false;         // runs a program of tools/, which takes further options
  bool needs_root = false;        // `itif-bench all` leaves it out for other users
};

// GEMMs through the library alone and through the device, in GFLOP/s.
Status bench_gemm(const BenchOptions& options, Report& report);
// GEMMs of several tenants, run sequentially and concurrently.
Status bench_gemm_choice(const BenchOptions& options, Report& report);
// Forward passes of BERT-base and ViT-base against the same GEMMs through the library alone.
Status bench_encoder(const BenchOptions& options, Report& report);

// Each operator at BERT-base's sizes: against a copy of the same number of bytes; attention against
// GEMMs.
Status bench_operators(const BenchOptions& options, Report& report);

// Payloads from packets, in GB/s over the bus.
Status bench_gather(const BenchOptions& options, Report& report);

// The thesis's Table 5.2, continued to 64 tenants.
Status bench_tenants(const BenchOptions& options, Report& report);
// The row Decoding of Table 5.2: a step of the decoder over given encoder outputs.
Status bench_decoder(const BenchOptions& options, Report& report);
// The thesis's Figures 5.2 to 5.4.
Status bench_batching(const BenchOptions& options, Report& report);
// Many tenants with few tokens each, by execution mode.
Status bench_few_tokens(const BenchOptions& options, Report& report);
// Compares planners on batches of mixed lengths, in tokens/s.
Status bench_mixed(const BenchOptions& options, Report& report);
// Answers in time and utility per second under overload, by planner (TCB's Figures 9 to 12).
Status bench_concat(const BenchOptions& options, Report& report);
// Requests/s of the same requests in rows, in slots of rows, padded and packed (TCB's Figures 13
// and 14).
Status bench_slots(const BenchOptions& options, Report& report);
// Requests/s and peak K/V memory of generated sequences, by when ended ones give memory back (TCB,
// section 4.2.2).
Status bench_cleaning(const BenchOptions& options, Report& report);
// Load time, memory and tokens/s of tenants that share weights (GSLICE's Table 1).
Status bench_sharing(const BenchOptions& options, Report& report);
// One to four groups of unlike weight, with and without batches by objective and shares of the
// device (GSLICE's Figures 8 to 10, 15 and 16, Tables 2 and 3).
Status bench_slices(const BenchOptions& options, Report& report);
// Controls of the batch size under objectives (GSLICE's Figures 12c and 14).
Status bench_slab(const BenchOptions& options, Report& report);
// Gains by overlapping, zero copy and batching (GSLICE's Figures 12a and 12b).
Status bench_components(const BenchOptions& options, Report& report);
// Tokens/s of LoRA adapters over one base, against the base's.
Status bench_lora(const BenchOptions& options, Report& report);
// Time that a change of a group's share adds to a batch (GSLICE, section 3.2.4).
Status bench_switch(const BenchOptions& options, Report& report);
// Latency of a whole appliance's tenants while others are added, updated and removed, and while the
// share of their group changes. Errors: kNotFound, no tools/bench-swap; kInternal, it failed.
Status bench_swap(const BenchOptions& options, Report& report);
// Answers in time and latency of a whole appliance against the offered load, and how late refusals
// are. Errors: kNotFound, no tools/bench-overload; kInternal, it failed.
Status bench_overload(const BenchOptions& options, Report& report);
// Tokens/s, latency and memory, varying one dimension at a time.
Status bench_scaling(const BenchOptions& options, Report& report);

// Planning time of 64 requests by planner, against 2 % of the batch's run time.
Status bench_plan(const BenchOptions& options, Report& report);

// Time of a batch policy's decision, against 2 % of the batch that it chooses.
Status bench_schedulers(const BenchOptions& options, Report& report);

// Datagrams through a worker: parse, verify, reassemble, hand over, answer; beside receiving alone.
Status bench_ingest(const BenchOptions& options, Report& report);

// Texts through a group's executor, with batches sequential and overlapped.
Status bench_overlap(const BenchOptions& options, Report& report);

}  // namespace itif::bench
