// A network in memory between a client's transport and a server model, on a virtual clock. From one
// seed it loses, duplicates, reorders and damages datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "client/transport.h"

namespace itif::client::test {

using Bytes = std::vector<std::byte>;

struct NetworkFaults {
  double loss = 0;
  double duplication = 0;
  double corruption = 0;  // damage that UDP's checksum does not detect: see MemoryNetwork::corrupt
  uint64_t min_delay_ns = 10'000;
  uint64_t jitter_ns = 0;  // larger than the datagrams' spacing: reorders
  double blocked = 0;      // share of send() calls that accept only part of the batch
  bool is_full = false;    // send() accepts nothing
};

class MemoryNetwork final : public Transport {
 public:
  using Deliver = std::function<void(uint32_t flow, const Bytes&)>;

  MemoryNetwork(VirtualClock& clock, Random& random, uint32_t num_flows, NetworkFaults faults)
      : clock_(clock), random_(random), num_flows_(num_flows), faults_(faults) {}

  void set_server(Deliver deliver) { server_ = std::move(deliver); }
  void set_faults(const NetworkFaults& faults) { faults_ = faults; }
  // Shows each datagram that the client sends.
  void set_tap(Deliver tap) { tap_ = std::move(tap); }
  // Shows each datagram that the server sends; it is lost if `show` returns false.
  void set_server_tap(std::function<bool(uint32_t flow, const Bytes&)> show) {
    server_tap_ = std::move(show);
  }
  // Sets how a datagram is damaged. The default changes one random byte.
  void set_corrupt(std::function<void(Bytes&)> corrupt) { corrupt_ = std::move(corrupt); }

  // The server's side.
  void send_to_client(uint32_t flow, Bytes bytes) {
    if (!server_tap_ || server_tap_(flow, bytes)) enqueue(false, flow, std::move(bytes));
  }
  // Delivers the datagrams that are due at the server.
  void deliver_to_server() {
    while (!to_server_.empty() && to_server_.top().when_ns <= clock_.now_ns()) {
      const Packet packet = to_server_.top();
      to_server_.pop();
      server_(packet.flow, packet.bytes);
    }
  }
  uint64_t next_event_ns() const {
    const uint64_t a = to_server_.empty() ? UINT64_MAX : to_server_.top().when_ns;
    const uint64_t b = to_client_.empty() ? UINT64_MAX : to_client_.top().when_ns;
    return std::min(a, b);
  }
  bool idle() const { return to_server_.empty() && to_client_.empty(); }

  // Transport.
  uint32_t num_flows() const noexcept override { return num_flows_; }
  size_t send(uint32_t flow, std::span<const Outgoing> batch) noexcept override {
    size_t taken = batch.size();
    if (random_.uniform() < faults_.blocked) taken = random_.below(batch.size() + 1);
    if (faults_.is_full) taken = 0;
    for (const Outgoing& datagram : batch.first(taken)) {
      Bytes bytes(datagram.head.begin(), datagram.head.end());
      bytes.insert(bytes.end(), datagram.body.begin(), datagram.body.end());
      if (tap_) tap_(flow, bytes);
      enqueue(true, flow, std::move(bytes));
    }
    return taken;
  }
  size_t receive(std::span<Incoming> batch) noexcept override {
    size_t count = 0;
    received_.clear();
    while (count < batch.size() && !to_client_.empty() &&
           to_client_.top().when_ns <= clock_.now_ns()) {
      received_.push_back(to_client_.top().bytes);
      batch[count].flow = to_client_.top().flow;
      to_client_.pop();
      ++count;
    }
    for (size_t i = 0; i < count; ++i) batch[i].bytes = received_[i];
    return count;
  }
  void wait(uint64_t timeout_ns) noexcept override { clock_.advance_ns(timeout_ns); }

 private:
  struct Packet {
    uint64_t when_ns = 0;
    uint64_t order = 0;
    uint32_t flow = 0;
    Bytes bytes;
    bool operator<(const Packet& other) const {  // the earliest is the queue's top
      return when_ns != other.when_ns ? when_ns > other.when_ns : order > other.order;
    }
  };

  void enqueue(bool to_server, uint32_t flow, Bytes bytes) {
    if (random_.uniform() < faults_.loss) return;
    const int copies = random_.uniform() < faults_.duplication ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      Packet packet{.when_ns = clock_.now_ns() + faults_.min_delay_ns,
                    .order = order_++,
                    .flow = flow,
                    .bytes = bytes};
      if (faults_.jitter_ns > 0) packet.when_ns += random_.below(faults_.jitter_ns);
      if (random_.uniform() < faults_.corruption) {
        if (corrupt_)
          corrupt_(packet.bytes);
        else if (!packet.bytes.empty())
          packet.bytes[random_.below(packet.bytes.size())] ^=
              static_cast<std::byte>(1 + random_.below(255));
      }
      (to_server ? to_server_ : to_client_).push(std::move(packet));
    }
  }

  VirtualClock& clock_;
  Random& random_;
  const uint32_t num_flows_;
  NetworkFaults faults_;
  Deliver server_;
  Deliver tap_;
  std::function<bool(uint32_t flow, const Bytes&)> server_tap_;
  std::function<void(Bytes&)> corrupt_;
  uint64_t order_ = 0;
  std::priority_queue<Packet> to_server_;
  std::priority_queue<Packet> to_client_;
  std::vector<Bytes> received_;
};

}  // namespace itif::client::test
