// The clients of the fuzz target of the ingest stage, and what they may expect: they keep account
// of the datagrams that a worker may accept, and check every frame that it sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "net/address.h"
#include "net/message_key.h"
#include "request/request.h"
#include "ring_port.h"
#include "tenant/snapshot.h"
#include "wire/datagram.h"

namespace itif::fuzz {

// Returns byte `at` of every payload of a request, and of its results, so that contents
// can be checked without a copy of them.
inline std::byte payload_byte(uint64_t request_id, uint32_t at) noexcept {
  return static_cast<std::byte>(request_id * 31 + at * 7 + (at >> 8));
}

class Clients {
 public:
  static constexpr size_t kClients = 4;
  static constexpr wire::Key kTokenSecret = {std::byte{0x5e}, std::byte{0xc2}, std::byte{0xe7}};

  explicit Clients(RingPort& port);

  // Begins a new input: nobody has sent anything.
  void clear();
  // Learns a key that tenants accept from now on, or accepted: tags by it are checked.
  void learn_key(uint32_t tenant_id, const tenant::Key& key, wire::Auth least);

  // Sends a datagram from a client's address, and keeps it for repeats. Returns false if the port
  // has no room.
  bool send(size_t client, std::vector<std::byte> datagram, uint64_t period);
  // Sends any frame. Its sender is unknown, so every client's budget counts it.
  bool send_frame(std::span<const std::byte> frame);
  const std::vector<std::vector<std::byte>>& sent() const { return sent_; }
  uint64_t frames() const { return frames_; }

  // Returns the header of the newest datagram of the response to a request; nullptr: none was sent.
  const wire::Header* response(const wire::Header& request) const;
  uint64_t token(size_t client, uint32_t session, uint64_t period) const;

  // A complete request has been delivered to its group. Checks its contents, and that the worker
  // has not accepted a datagram twice.
  void check_delivered(const request::Request& request);
  // Takes and checks all frames that the worker has sent.
  void check_answers();

 private:
  using RequestKey = std::tuple<uint32_t, uint32_t, uint64_t>;  // tenant, session, request id
  struct Requested {
    std::set<std::tuple<size_t, uint64_t, uint64_t>> datagrams;  // client, sequence, token
    size_t delivered = 0;                                        // datagrams
    bool has_other_payload = false;  // some piece is not made of payload_byte()
  };
  struct Known {
    uint32_t tenant_id;
    uint16_t epoch;
    wire::Key key;
    wire::Auth least;
  };
  struct Traffic {
    uint64_t in = 0, out = 0;  // bytes of UDP payload
    bool is_proven = false;
  };

  void account(size_t client, std::vector<std::byte> datagram, uint64_t period);
  bool is_authentic(const wire::Datagram& datagram) const;
  void check_frame(std::span<const std::byte> frame);
  void check_datagram(std::span<std::byte> datagram);

  RingPort& port_;
  std::array<net::Endpoint, kClients> endpoints_;
  std::array<Traffic, kClients> traffic_;
  std::vector<Known> keys_;
  std::map<RequestKey, Requested> requests_;
  std::map<RequestKey, wire::Header> responses_;
  std::set<uint64_t> sequences_;  // of the worker's datagrams
  std::vector<std::vector<std::byte>> sent_;
  uint64_t raw_bytes_ = 0;
  uint64_t frames_ = 0;  // that the port has taken
};

}  // namespace itif::fuzz
