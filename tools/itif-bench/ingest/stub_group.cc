#include "ingest/stub_group.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace itif::bench {

Result<std::unique_ptr<StubGroup>> StubGroup::make(const std::string& name, uint16_t first_worker,
                                                   std::vector<pipeline::ReturnRing*> returns) {
  std::unique_ptr<StubGroup> group(new StubGroup(first_worker, std::move(returns)));
  std::vector<uint32_t> capacities(first_worker, 1);  // of workers that lend nothing here
  size_t lendable = 0;
  for (const pipeline::ReturnRing* ring : group->returns_) {
    capacities.push_back(ring->capacity());
    lendable += ring->capacity();
  }
  ITIF_ASSIGN(group->inbox_, pipeline::GroupInbox::create(name, capacities, group->counters_));
  group->taken_.reserve(lendable);
  return group;
}

size_t StubGroup::take() {
  std::array<request::Request*, 64> burst;
  const size_t before = taken_.size();
  while (const unsigned count = inbox_->pop(burst.data(), burst.size()))
    taken_.insert(taken_.end(), burst.begin(), burst.begin() + count);
  return taken_.size() - before;
}

size_t StubGroup::give_back() {
  for (request::Request* request : taken_) {
    request->status = wire::StatusCode::kOk;
    request->result_kind_out = wire::ResultKind::kLogits;
    request->result_rows = 1;
    request->result = {static_cast<std::byte*>(std::malloc(kResultBytes)), kResultBytes};
    CHECK(request->result.data != nullptr);
    std::memset(request->result.data, 0, kResultBytes);
    CHECK(returns_[request->worker - first_worker_]->push(request));
  }
  const size_t count = taken_.size();
  taken_.clear();
  return count;
}

}  // namespace itif::bench
