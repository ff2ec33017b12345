// Discards every datagram, for measuring the cost of the sending side alone, without a kernel.
#pragma once

#include "client/transport.h"

namespace itif::loadgen {

class NullTransport final : public client::Transport {
 public:
  uint32_t num_flows() const noexcept override { return 1; }
  size_t send(uint32_t, std::span<const client::Outgoing> batch) noexcept override {
    return batch.size();
  }
  size_t receive(std::span<client::Incoming>) noexcept override { return 0; }
  void wait(uint64_t) noexcept override {}
};

}  // namespace itif::loadgen
