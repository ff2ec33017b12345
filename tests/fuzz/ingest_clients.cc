#include "ingest_clients.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "net/frame_writer.h"
#include "wire/payload.h"

namespace itif::fuzz {
namespace {

constexpr net::MacAddress kClientMac = {2, 0, 0, 0, 0, 9};
constexpr uint16_t kServerPort = 9009;
constexpr size_t kMaxSent = 256;  // datagrams kept for repeats

net::Endpoint endpoint(const net::MacAddress& server, uint8_t version,
                       std::initializer_list<uint8_t> client, uint16_t port) {
  net::Endpoint end;  // from the client's view: the peer is the server
  end.peer_mac = server;
  end.our_mac = kClientMac;
  end.ip_version = version;
  std::copy(client.begin(), client.end(), end.our_address.begin());
  if (version == 4)
    end.peer_address = {198, 18, 0, 1};
  else
    end.peer_address = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  end.peer_port = kServerPort;
  end.our_port = port;
  return end;
}

unsigned be16(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<unsigned>(bytes[at]) << 8 | std::to_integer<unsigned>(bytes[at + 1]);
}

}  // namespace

Clients::Clients(RingPort& port) : port_(port) {
  const net::MacAddress mac = port.port().info().mac;
  endpoints_ = {endpoint(mac, 4, {198, 18, 0, 2}, 40000), endpoint(mac, 4, {198, 18, 0, 2}, 40001),
                endpoint(mac, 4, {198, 18, 7, 3}, 40000),
                endpoint(mac, 6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 40000)};
}

void Clients::clear() {
  traffic_ = {};
  keys_.clear();
  requests_.clear();
  responses_.clear();
  sequences_.clear();
  sent_.clear();
  raw_bytes_ = frames_ = 0;
}

void Clients::learn_key(uint32_t tenant_id, const tenant::Key& key, wire::Auth least) {
  keys_.push_back({tenant_id, key.epoch, key.bytes, least});
}

const wire::Header* Clients::response(const wire::Header& request) const {
  const auto found = responses_.find({request.tenant_id, request.session, request.request_id});
  return found == responses_.end() ? nullptr : &found->second;
}

uint64_t Clients::token(size_t client, uint32_t session, uint64_t period) const {
  const net::Endpoint& end = endpoints_[client];
  const auto address =
      std::as_bytes(std::span(end.our_address).first(end.ip_version == 4 ? 4 : 16));
  return wire::address_token(
      kTokenSecret, {.address = address, .port = end.our_port, .session = session}, period);
}

bool Clients::send(size_t client, std::vector<std::byte> datagram, uint64_t period) {
  rte_mbuf* mbuf = port_.allocate();
  if (mbuf == nullptr) return false;
  const net::Endpoint& end = endpoints_[client];
  const std::span<std::byte> room = net::udp_payload_room(*mbuf, end);
  datagram.resize(std::min(datagram.size(), room.size()));
  std::copy(datagram.begin(), datagram.end(), room.begin());
  net::write_udp_headers(*mbuf, end, datagram.size(), {});
  mbuf->ol_flags = 0;
  if (!port_.deliver(mbuf)) return false;
  ++frames_;
  traffic_[client].in += datagram.size();
  if (sent_.size() < kMaxSent) sent_.push_back(datagram);
  account(client, std::move(datagram), period);
  return true;
}

bool Clients::send_frame(std::span<const std::byte> frame) {
  rte_mbuf* mbuf = port_.allocate();
  if (mbuf == nullptr) return false;
  frame = frame.first(std::min<size_t>(frame.size(), rte_pktmbuf_tailroom(mbuf)));
  if (!frame.empty())
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(),
                frame.size());
  if (!port_.deliver(mbuf)) return false;
  ++frames_;
  raw_bytes_ += frame.size();
  return true;
}

bool Clients::is_authentic(const wire::Datagram& datagram) const {
  const wire::Header& header = datagram.header;
  return std::any_of(keys_.begin(), keys_.end(), [&](const Known& known) {
    if (known.tenant_id != header.tenant_id || header.auth < known.least) return false;
    if (header.auth == wire::Auth::kNone) return true;
    return known.epoch == header.key_epoch && wire::open(known.key, datagram);
  });
}

void Clients::account(size_t client, std::vector<std::byte> datagram, uint64_t period) {
  wire::Datagram parsed;
  if (wire::parse(datagram, parsed) != wire::ParseError::kNone) return;
  const wire::Header& header = parsed.header;
  if (header.token == 0 || (header.token != token(client, header.session, period) &&
                            header.token != token(client, header.session, period - 1)))
    return;
  if (!is_authentic(parsed)) return;
  traffic_[client].is_proven = true;
  if (header.type != wire::Type::kRequest) return;
  Requested& requested = requests_[{header.tenant_id, header.session, header.request_id}];
  requested.datagrams.emplace(client, header.sequence, header.token);
  for (uint32_t i = 0; i < parsed.payload.size(); ++i)
    if (parsed.payload[i] != payload_byte(header.request_id, header.offset + i))
      requested.has_other_payload = true;
}

void Clients::check_delivered(const request::Request& request) {
  const auto found = requests_.find({request.tenant_id, request.session, request.request_id});
  CHECK(found != requests_.end());
  Requested& requested = found->second;
  requested.delivered += std::max<size_t>(request.pieces.size(), 1);
  CHECK(requested.delivered <= requested.datagrams.size());
  uint32_t at = 0;
  for (const request::Piece& piece : request.pieces) {
    CHECK(piece.bytes > 0 && reinterpret_cast<uintptr_t>(piece.data) % 4 == 0);
    CHECK(piece.bytes <= request.payload_bytes - at);
    for (uint32_t i = 0; i < piece.bytes; ++i)
      CHECK(requested.has_other_payload ||
            piece.data[i] == payload_byte(request.request_id, at + i));
    at += piece.bytes;
  }
  CHECK(at == request.payload_bytes);
}

void Clients::check_answers() {
  for (std::vector<std::byte> frame; !(frame = port_.take_sent()).empty();) check_frame(frame);
}

void Clients::check_frame(std::span<const std::byte> frame) {
  CHECK(frame.size() >= 14);
  const unsigned type = be16(frame, 12);
  const size_t l4 = type == 0x0800 ? 14 + 20 : type == 0x86dd ? 14 + 40 : SIZE_MAX;
  // Other frames answer raw ones.
  if (l4 == SIZE_MAX || std::to_integer<int>(frame[type == 0x0800 ? 14 + 9 : 14 + 6]) != 17) {
    CHECK(raw_bytes_ > 0 || type == 0x0806 || type == 0x86dd);  // announcements
    return;
  }
  const size_t bytes = be16(frame, l4 + 4);
  CHECK(bytes >= 8 && frame.size() == l4 + bytes);
  std::vector<std::byte> datagram(frame.begin() + static_cast<std::ptrdiff_t>(l4) + 8, frame.end());
  const std::byte* address = frame.data() + (type == 0x0800 ? 14 + 16 : 14 + 24);
  const auto to = std::find_if(endpoints_.begin(), endpoints_.end(), [&](const auto& end) {
    return end.ip_version == (type == 0x0800 ? 4 : 6) && end.our_port == be16(frame, l4 + 2) &&
           std::memcmp(end.our_address.data(), address, end.ip_version == 4 ? 4 : 16) == 0;
  });
  if (to == endpoints_.end()) {
    CHECK(raw_bytes_ > 0);
  } else {
    // No reply to an address that nobody has proven is longer than its datagram.
    Traffic& traffic = traffic_[static_cast<size_t>(to - endpoints_.begin())];
    traffic.out += datagram.size();
    CHECK(traffic.is_proven || traffic.out <= traffic.in + raw_bytes_);
  }
  check_datagram(datagram);
}

void Clients::check_datagram(std::span<std::byte> datagram) {
  wire::Datagram parsed;
  CHECK(wire::parse(datagram, parsed) == wire::ParseError::kNone);
  const wire::Header& header = parsed.header;
  if (header.auth != wire::Auth::kNone) CHECK(is_authentic(parsed));
  // A sealed datagram's nonce contains the sequence number.
  if (header.type != wire::Type::kPong && header.type != wire::Type::kToken)
    CHECK(sequences_.insert(header.sequence).second);
  switch (header.type) {
    case wire::Type::kResponse:
      responses_[{header.tenant_id, header.session, header.request_id}] = header;
      for (uint32_t i = 0; i < parsed.payload.size(); ++i)
        CHECK(parsed.payload[i] == payload_byte(header.request_id, header.offset + i));
      break;
    case wire::Type::kStatus: CHECK(wire::utf8_valid(wire::status_detail(parsed.payload))); break;
    case wire::Type::kResend: CHECK((header.flags & wire::kFlagOfResponse) == 0); break;
    case wire::Type::kBusy:
    case wire::Type::kToken:
    case wire::Type::kPong: break;
    default: CHECK(!"a type that only clients send");
  }
}

}  // namespace itif::fuzz
