// One trial of a search or a sweep: the results of a run at one rate, and their judgement.
#pragma once

#include <cstdint>
#include <string>

#include "options.h"
#include "results.h"
#include "search.h"

namespace itif::loadgen {

struct Judgement {
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // empty: passed
};

struct Trial {
  uint32_t repeat = 0;  // from 1
  double rate = 0;      // requests/s that were due
  Results results;
  Judgement judgement;
};

// Returns the measured requests without an answer in time: lost, refused, or answered after their
// deadline.
uint64_t without_answer_in_time(const TargetResults& total) noexcept;
// The same in percent of the requests sent; 100 if none was sent.
double loss_percent(const TargetResults& total) noexcept;

// Returns the share of the due requests that were sent, and sent at the rate: 1 if all were and the
// last was on time.
double offered_share(const Results& results) noexcept;

// Judges a trial by the loss that is allowed, in percent of the requests sent.
//
// The server fails it if more requests have no answer in time. This program fails it instead if it
// offered less than 99 % of the rate although it had room for more requests in flight; if it had no
// room and nothing was lost; or if its own buffers dropped as many datagrams as there are requests
// too many without an answer.
Judgement judge(const Options& options, const Results& results, double allowed_percent);

}  // namespace itif::loadgen
