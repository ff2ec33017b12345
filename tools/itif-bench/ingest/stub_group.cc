#include "ingest/stub_group.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace itif::bench {

Result<std::unique_ptr<StubGroup>> StubGroup::make(const std::string& name, uint32_t capacity,
                                                   uint16_t first_worker,
                                                   std::vector<pipeline::ReturnRing*> returns) {
  std::unique_ptr<StubGroup> group(new StubGroup(first_worker, std::move(returns)));
  ITIF_ASSIGN(group->ring_, pipeline::RequestRing::create(name, capacity));
  group->inbox_ = std::make_unique<pipeline::GroupInbox>(*group->ring_, group->counters_);
  group->taken_.reserve(capacity);
  return group;
}

size_t StubGroup::take() {
  std::array<request::Request*, 64> burst;
  const size_t before = taken_.size();
  while (const unsigned count = ring_->pop(burst.data(), burst.size()))
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
