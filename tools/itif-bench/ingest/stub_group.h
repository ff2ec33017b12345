// A group without a model: takes complete requests from its inbox, and returns them with results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/group_inbox.h"
#include "pipeline/return_ring.h"
#include "telemetry/counters.h"

namespace itif::bench {

class StubGroup {
 public:
  static constexpr uint32_t kResultBytes = 16;

  // `name`: unique in the process. Returns requests to returns[i], the ring of worker
  // first_worker + i, which outlives the group. Errors: kResourceExhausted.
  static Result<std::unique_ptr<StubGroup>> make(const std::string& name, uint16_t first_worker,
                                                 std::vector<pipeline::ReturnRing*> returns);

  pipeline::GroupInbox& inbox() noexcept { return *inbox_; }
  // Takes all requests that the workers have lent; returns their number.
  size_t take();
  // The requests taken and not yet given back.
  std::span<request::Request* const> taken() const noexcept { return taken_; }
  // Gives back all of these, each with a result of kResultBytes; returns their number.
  size_t give_back();

 private:
  StubGroup(uint16_t first_worker, std::vector<pipeline::ReturnRing*> returns)
      : first_worker_(first_worker), returns_(std::move(returns)) {}

  const uint16_t first_worker_;
  const std::vector<pipeline::ReturnRing*> returns_;
  telemetry::ExecutorCounters counters_;
  std::unique_ptr<pipeline::GroupInbox> inbox_;
  std::vector<request::Request*> taken_;
};

}  // namespace itif::bench
