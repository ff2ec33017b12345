// Discards every datagram, for measuring the cost of the sending side alone, without a kernel.
// Answers only hellos, because a client sends no request before it has an address token.
#pragma once

#include <array>

#include "client/transport.h"
#include "wire/datagram.h"

namespace itif::loadgen {

class NullTransport final : public client::Transport {
 public:
  uint32_t num_flows() const noexcept override { return 1; }
  size_t send(uint32_t, std::span<const client::Outgoing> batch) noexcept override {
    for (const client::Outgoing& outgoing : batch) {
      wire::Datagram datagram;
      if (!outgoing.body.empty() ||
          wire::parse(outgoing.head, datagram) != wire::ParseError::kNone ||
          datagram.header.type != wire::Type::kHello)
        continue;
      wire::Header token = wire::reply_header(datagram.header, wire::Type::kToken);
      token.token = 1;
      token.budget_us = UINT32_MAX;
      answer_bytes_ = wire::build(token, {}, wire::Key{}, answer_);
    }
    return batch.size();
  }
  size_t receive(std::span<client::Incoming> batch) noexcept override {
    if (answer_bytes_ == 0 || batch.empty()) return 0;
    batch[0] = {.flow = 0, .bytes = std::span(answer_).first(answer_bytes_)};
    answer_bytes_ = 0;
    return 1;
  }
  void wait(uint64_t) noexcept override {}

 private:
  std::array<std::byte, wire::kHeaderBytes> answer_{};
  size_t answer_bytes_ = 0;  // 0: none waits
};

}  // namespace itif::loadgen
