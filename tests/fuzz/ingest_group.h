// A group for the fuzz target of the ingest stage: it holds the requests that the worker lends it
// until the input lets them end.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "ingest_clients.h"
#include "pipeline/group_inbox.h"
#include "pipeline/return_ring.h"
#include "telemetry/counters.h"

namespace itif::fuzz {

class IngestGroup {
 public:
  IngestGroup(uint32_t max_requests, Clients& clients, const Clock& clock);

  pipeline::GroupInbox& inbox() { return *inbox_; }
  void set_busy_until(uint64_t ns) { counters_.busy_until_ns.set(ns); }
  // Takes what the worker has lent.
  void take();
  bool empty() const { return waiting_.empty(); }

  // Returns the packets of one waiting request, if they have not been returned.
  void return_packets(pipeline::ReturnRing& returns, uint8_t which);
  // Ends one waiting request with a result of `bytes`, or, if `status` is another than kOk, with
  // that.
  void end(pipeline::ReturnRing& returns, uint8_t which, wire::StatusCode status, uint32_t bytes);

 private:
  struct Waiting {
    request::Request* request;
    bool has_packets = true;
  };

  Clients& clients_;
  const Clock& clock_;
  telemetry::ExecutorCounters counters_;
  std::unique_ptr<pipeline::GroupInbox> inbox_;
  std::deque<Waiting> waiting_;
};

}  // namespace itif::fuzz
