// Draws the requests of a group: when each arrives, of which tenant it is, its tokens and its
// deadline.
//
// A trace is a text file with one request per line, in order of time; '#' starts a comment:
//
//   seconds tokens [tenant [deadline_ms]]          tenant: its index in the group, from 0
//
// Missing fields are drawn as without a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "sim/scenario.h"

namespace itif::sim {

struct Draw {
  uint64_t arrival_ns = 0;  // from the start
  uint32_t tenant = 0;      // index in the group
  uint32_t num_tokens = 0;
  uint64_t deadline_ns = 0;  // from the arrival; 0: none
  uint32_t num_output = 0;   // tokens to generate; 0: the model does not generate
};

class Workload {
 public:
  // Draws requests of `group` for duration_ns; times count from the start of its arrivals. Lengths
  // are cut to max_tokens, and those of outputs to max_output; 0: the model does not generate.
  // Errors: kNotFound, kInvalidArgument: a file that a scenario names, with the line.
  static Result<Workload> make(const GroupScenario& group, uint64_t duration_ns,
                               uint32_t max_tokens, uint64_t seed, uint32_t max_output = 0);

  // The next request; nullopt: the scenario's duration or trace has ended. For kClosed the caller
  // sets the arrival.
  std::optional<Draw> next();

 private:
  struct TraceLine {
    double seconds = 0;
    uint32_t num_tokens = 0;
    int64_t tenant = -1;
    double deadline_ms = -1;
  };
  Workload(const GroupScenario& group, uint64_t duration_ns, uint32_t max_tokens, uint64_t seed,
           uint32_t max_output);
  Status read_trace(const std::string& path);
  static Status read_lengths(const std::string& path, std::vector<uint32_t>& lengths);
  void advance();
  uint32_t draw_length(const Lengths& lengths, const std::vector<uint32_t>& file);
  uint32_t draw_output(uint32_t num_tokens);
  uint32_t draw_tenant();
  uint64_t draw_deadline(uint32_t num_tokens);

  Arrivals arrivals_;
  Lengths lengths_;
  Outputs output_;
  Deadlines deadlines_;
  double duration_ns_;
  uint32_t max_tokens_, max_output_;
  Random random_;
  std::vector<double> shares_;  // cumulative, of the tenants
  std::vector<uint32_t> file_lengths_, file_outputs_;
  std::vector<TraceLine> trace_;
  size_t next_line_ = 0;
  double at_ns_ = 0;  // of the next request
  bool in_burst_ = false;
  double phase_end_ns_ = 0;  // of the present burst, or of the pause before the next
};

}  // namespace itif::sim
