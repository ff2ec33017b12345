#include "pipeline/group_inbox.h"

namespace itif::pipeline {

Result<std::unique_ptr<GroupInbox>> GroupInbox::create(
    const std::string& name, std::span<const uint32_t> capacities,
    const telemetry::ExecutorCounters& counters) {
  std::unique_ptr<GroupInbox> made(new GroupInbox(counters));
  for (size_t worker = 0; worker < capacities.size(); ++worker) {
    ITIF_ASSIGN(auto ring, RequestRing::create(name + "_" + std::to_string(worker),
                                               capacities[worker], RequestRing::Producers::kOne));
    made->rings_.push_back(std::move(ring));
  }
  return made;
}

unsigned GroupInbox::pop(request::Request** out, unsigned count) noexcept {
  unsigned taken = 0;
  for (size_t looked = 0; looked < rings_.size() && taken < count; ++looked) {
    taken += rings_[next_]->pop(out + taken, count - taken);
    if (++next_ == rings_.size()) next_ = 0;
  }
  return taken;
}

}  // namespace itif::pipeline
