// A scenario describes a simulated run: device, groups, tenants, arrivals, client and link.
// docs/simulation.md explains every key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "sim/model_choice.h"
#include "slice/max_min.h"
#include "tenant/settings.h"

namespace itif::sim {

inline constexpr uint32_t kMaxRequestTokens = 1u << 20;

// A machine of device/sim/machine.h, or a group's profile.
struct DeviceChoice {
  std::string machine = "v100";
  std::string dtype = "auto";
  std::string profile = {};  // a file of lib/plan/cost_file.h; replaces `machine`
  uint32_t threads = 0;      // profile: compute threads of the measured device; 0: a GPU
  // How payloads reach the device. gather: the batch reads them from their packets. copy: the host
  // collects and copies them before the batch.
  std::string inputs = "gather";
  uint64_t notice_ns = 0;  // from the end of a batch until its group's thread sees it
  // Time of the host that no cost model holds.
  uint64_t batch_overhead_ns = 0;    // per batch
  uint64_t request_overhead_ns = 0;  // profile: per request of a batch
};

enum class ArrivalKind : uint8_t { kPoisson, kConstant, kBursty, kDiurnal, kTrace, kClosed };
struct Arrivals {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double rate = 100;  // requests per second, on average
  // kBursty: Poisson arrivals whose rate alternates. Bursts take burst_share of the time, last
  // burst_ns on average (exponential) and have burst_factor times the average rate.
  double burst_factor = 4;
  double burst_share = 0.1;
  uint64_t burst_ns = 500'000'000;
  // kDiurnal: Poisson arrivals of rate · (1 + amplitude · sin(2π · t / period)).
  uint64_t period_ns = 60'000'000'000;
  double amplitude = 0.8;
  std::string trace = {};     // kTrace: a file, see workload.h
  uint32_t concurrency = 64;  // kClosed: requests in flight
};

enum class LengthKind : uint8_t { kUniform, kNormal, kFile };
// The default: TCB, section 6.2.1 (README.md, Prior work).
struct Lengths {
  LengthKind kind = LengthKind::kNormal;
  uint32_t from = 3, to = 100;  // tokens; values outside are drawn again
  double mean = 20, variance = 20;
  std::string file = {};  // kFile: one length per line, drawn uniformly
};

enum class OutputKind : uint8_t { kAsSource, kFixed, kUniform, kNormal, kFile };
// Tokens that an encoder-decoder generates for a request, the end token included.
struct Outputs {
  OutputKind kind = OutputKind::kAsSource;
  // kFixed: `from`. The others: as Lengths.
  uint32_t from = 20, to = 100;
  double mean = 20, variance = 20;
  std::string file = {};
  uint32_t beams = 1;  // of a search; 1: greedy
};

enum class DeadlineKind : uint8_t { kNone, kFixed, kUniform, kByLength };
struct Deadlines {
  DeadlineKind kind = DeadlineKind::kNone;
  uint64_t from_ns = 1'000'000'000;  // kFixed, kByLength: of a request of no tokens
  uint64_t to_ns = 1'000'000'000;    // kUniform
  uint64_t token_ns = 0;             // kByLength: for each token
  uint64_t max_ns() const;
};

struct ClientChoice {
  uint32_t tries = 5;
  uint64_t rto_ns = 50'000'000;
  uint64_t timeout_ns = 10'000'000'000;
  uint32_t refusal_retries = 0;
  uint32_t max_in_flight = 65536;
  std::string auth = "header";  // none | header | full
};

// Each direction alike.
struct LinkOptions {
  double rate_bps = 10e9;
  uint64_t delay_ns = 20'000;
  uint64_t jitter_ns = 0;  // added at random; more than the datagrams' spacing reorders them
  double loss = 0;         // probabilities of each datagram
  double duplication = 0;
  double corruption = 0;
};

struct TenantChoice {
  std::string name;
  double share = 1;                // of the arrivals, in proportion to the other tenants'
  tenant::Settings settings = {};  // `auth` is ClientChoice's
};

// How groups divide the device.
enum class SliceMode : uint8_t {
  kNone,   // not at all: their batches run one after another, in the order of their launches
  kFixed,  // each has its own part of the multiprocessors
  kTuned,  // as kFixed, and slice/slice_control.h tunes the parts
};
struct SliceOptions {
  SliceMode mode = SliceMode::kNone;
  // kTuned:
  uint64_t period_ns = 500'000'000;  // between two decisions
  uint64_t hold_down_ns = 2'000'000'000;
  double first_percent = 30;  // of a group whose knee is unknown
  slice::UnmetDemands unmet_demands = slice::UnmetDemands::kEqual;
  bool lends = true;  // what no group asks for, and the parts of idle groups
};

// A group's part of a divided device.
struct SliceChoice {
  double percent = 0;    // kFixed; 0: an equal part of what the others leave
  double knee = 0;       // kTuned; in percent; 0: unknown
  double weight = 1;     // kTuned
  uint64_t slo_ns = 0;   // kTuned; 0: the tightest objective of its tenants
  uint64_t from_ns = 0;  // the group has its part, and requests, from here
  uint64_t until_ns = UINT64_MAX;
};

struct GroupScenario {
  std::string name = "sim";
  ModelChoice model;
  config::Batching batching = {.max_tokens = 1024};  // simulated devices have no default of theirs
  Arrivals arrivals;
  Lengths lengths;
  Outputs output;
  Deadlines deadlines;
  std::vector<TenantChoice> tenants = {{.name = "tenant"}};
  SliceChoice slice;
};

// The scenario's first group, all that concerns the whole machine, and the other groups.
struct Scenario : GroupScenario {
  std::string path;  // of the file; empty: none
  uint64_t seed = 1;
  uint64_t duration_ns = 10'000'000'000;  // of arrivals; the run ends when all have their outcome
  uint64_t warmup_ns = 0;                 // arrivals before it are not measured
  uint64_t max_requests = 0;              // 0: no limit
  bool passes_marks = false;              // device/sim/row_marks.h; checks each answer
  DeviceChoice device;
  config::DataPlane data_plane;
  ClientChoice client;
  LinkOptions link;
  SliceOptions slices;
  std::vector<GroupScenario> other_groups;

  size_t num_groups() const noexcept { return 1 + other_groups.size(); }
  // REQUIRES: index < num_groups().
  const GroupScenario& group(size_t index) const noexcept {
    return index == 0 ? *this : other_groups[index - 1];
  }
  // All groups' tenants, in order. The name is GROUP/TENANT if there are several groups.
  std::vector<std::string> tenant_names() const;
};

// Errors: kInvalidArgument, a contradiction between keys.
Status check(const Scenario& scenario);
// Errors: kInvalidArgument, kUnsupported: no planner, or one that the model's executor refuses.
Status check_planner(const ModelChoice& model, std::string_view planner);
// Returns the most tokens that a request of the group generates; 0: its model generates none.
uint32_t max_output_tokens(const GroupScenario& group, const model::BackboneSpec& spec);

}  // namespace itif::sim
