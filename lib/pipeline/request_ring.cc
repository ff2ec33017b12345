#include "pipeline/request_ring.h"

#include <fmt/format.h>
#include <rte_errno.h>

namespace itif::pipeline {

Result<std::unique_ptr<RequestRing>> RequestRing::create(const std::string& name, uint32_t capacity,
                                                         Producers producers) {
  auto made = std::make_unique<RequestRing>();
  const unsigned enqueue = producers == Producers::kOne ? RING_F_SP_ENQ : RING_F_MP_RTS_ENQ;
  made->ring_.reset(rte_ring_create(name.c_str(), capacity, SOCKET_ID_ANY,
                                    enqueue | RING_F_SC_DEQ | RING_F_EXACT_SZ));
  if (!made->ring_) {
    return fail(Code::kResourceExhausted,
                fmt::format("cannot create ring {} of {} requests: {}; give DPDK more memory", name,
                            capacity, rte_strerror(rte_errno)));
  }
  return made;
}

}  // namespace itif::pipeline
