// The requests of one group's clients: a closed loop of a given number, or arrivals of a Poisson
// process. GroupClients (group_clients.h) runs the loads of several groups in one thread.
//
// The group's stage borrows the requests: a load outlives its requests in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/random.h"
#include "pipeline/group_inbox.h"
#include "report/convergence.h"
#include "report/time_line.h"
#include "request/request.h"
#include "workload/questions.h"

namespace itif::bench {

struct LoadOptions {
  uint32_t in_flight = 16;  // requests at all times; with a rate: at most
  double rate = 0;          // arrivals per second; 0: a closed loop
  uint64_t slo_ns = 0;      // latency objective; 0: none
  // Copies a payload's pieces into contiguous memory first, as a stack that receives into buffers
  // of its own would do. False: the group reads the packets.
  bool copies_payload = false;
};

// Since reset().
struct LoadFigures {
  uint64_t sent = 0, answered = 0;
  uint64_t late = 0;        // answered later than the objective
  uint64_t unanswered = 0;  // arrivals that found in_flight requests, and refusals
  uint64_t execute_ns = 0;  // Σ over the answers, from the start of the batch to its end
  Histogram latency_ns;     // of the answers
};

// The answers to all questions of a model; empty: not known.
using Answers = std::vector<std::vector<float>>;

class GroupLoad {
 public:
  // `number`: the load's among all loads of its thread. `expected` (null: any answers) and the
  // other references outlive the load.
  GroupLoad(uint16_t number, const Questions& questions, const Answers* expected,
            pipeline::GroupInbox& inbox, const LoadOptions& options);
  ~GroupLoad();  // REQUIRES: num_in_flight() is 0
  GroupLoad(const GroupLoad&) = delete;
  GroupLoad& operator=(const GroupLoad&) = delete;

  // Sends from now on (true), or sends no more (false).
  void set_active(bool active, uint64_t now_ns);
  // Sets the objective of later requests.
  void set_objective(uint64_t slo_ns) { options_.slo_ns = slo_ns; }

  // Sends what is due. Returns when the next request is due; UINT64_MAX: with the next answer.
  uint64_t send(uint64_t now_ns);
  // Takes back a request of this load that has ended.
  void take_back(request::Request& request, uint64_t now_ns);

  uint32_t num_in_flight() const { return static_cast<uint32_t>(requests_.size() - free_.size()); }
  // The first answer to each question; empty ones are still unanswered.
  const Answers& answers() const { return answers_; }
  bool all_answered() const;
  // Describes the first answer that differs from the expected one; empty: none does.
  const std::string& difference() const { return difference_; }

  void reset() { figures_ = {}; }
  const LoadFigures& figures() const { return figures_; }
  const std::vector<BatchSeen>& batches() const { return batches_; }  // all, in order

  // Ends a period of the time line, whose length is `seconds`.
  void end_interval(double seconds, double share_percent);
  const std::vector<TimeLine::Interval>& intervals() const { return intervals_; }

 private:
  struct Slot {
    request::Request request;
    std::vector<std::byte> copy;  // of the payload
    request::Piece copied;
  };

  void push(uint64_t now_ns);
  void note_answer(const request::Request& request, uint64_t now_ns);
  void note_batch(const request::Request& request);
  void keep_answer(const request::Request& request);

  const uint16_t number_;
  const Questions& questions_;
  const Answers* const expected_;
  pipeline::GroupInbox& inbox_;
  LoadOptions options_;
  std::deque<Slot> requests_;
  std::vector<uint32_t> free_;
  uint32_t next_question_ = 0;
  Random random_;
  bool is_active_ = false;
  uint64_t next_arrival_ns_ = 0;

  Answers answers_;
  std::string difference_;
  LoadFigures figures_;
  std::vector<BatchSeen> batches_;
  struct Period {
    uint64_t sent = 0, answered = 0, latency_ns = 0, batches = 0;
  } period_;
  std::vector<TimeLine::Interval> intervals_;
};

}  // namespace itif::bench
