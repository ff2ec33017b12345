// The checks of WorkerLoad.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "ingest/worker_load.h"
#include "net/drop_reason.h"
#include "net/frame.h"
#include "net/header_bytes.h"
#include "wire/datagram.h"

namespace itif::bench {
namespace {

std::unexpected<Error> wrong(std::string what) {
  return fail(Code::kInternal, "the worker's results are wrong: " + std::move(what));
}

// The reason under which every datagram is dropped.
net::DropReason reason_of(Fault fault) {
  switch (fault) {
    case Fault::kNone: return net::DropReason::kNone;
    case Fault::kBadTag: return net::DropReason::kBadTag;
    case Fault::kBadMagic: return net::DropReason::kWireBadMagic;
    case Fault::kOverloaded: return net::DropReason::kTenantContextsFull;
    case Fault::kDuplicate: return net::DropReason::kDuplicate;
    case Fault::kReplayed: return net::DropReason::kReplayed;
  }
  return net::DropReason::kNone;
}

}  // namespace

// Compares the taken requests' payloads with the payload sent.
Status WorkerLoad::check_requests() const {
  for (const request::Request* request : rig_->group().taken()) {
    size_t at = 0;
    for (const request::Piece& piece : request->pieces) {
      if (at + piece.bytes > payload_.size() ||
          std::memcmp(piece.data, payload_.data() + at, piece.bytes) != 0)
        return wrong(fmt::format("request {} has other bytes at {}", request->request_id, at));
      at += piece.bytes;
    }
    if (at != payload_.size())
      return wrong(
          fmt::format("request {} has {} of {} bytes", request->request_id, at, payload_.size()));
  }
  return {};
}

// Checks the tags and types of sent datagrams, and frees them.
Status WorkerLoad::check_sent() {
  const auto expected =
      options_.fault == Fault::kOverloaded ? wire::Type::kStatus : wire::Type::kResponse;
  net::LocalAddresses client{.mac = clients_.front().our_mac,
                             .ipv4 = {{198, 18, 0, 2}},
                             .ipv6 = {},
                             .udp_port = 0,
                             .vlan = 0};
  Status status;
  std::array<rte_mbuf*, 64> frames;
  for (size_t p = 0, count; p < ports_.size();) {
    count = ports_[p]->take(frames);
    if (count == 0) ++p;
    for (rte_mbuf* mbuf : std::span(frames).first(count)) {
      client.udp_port = net::load_be16(
          rte_pktmbuf_mtod_offset(mbuf, const std::byte*, net::udp_header_bytes(clients_[0]) - 6));
      net::Frame frame;
      wire::Datagram datagram;
      if (net::parse_frame(*mbuf, false, client, frame) != net::DropReason::kNone ||
          wire::parse(net::udp_payload(*mbuf, frame), datagram) != wire::ParseError::kNone)
        status = wrong("it sent a malformed datagram");
      else if (const size_t asker = client_of(datagram.header.request_id);
               client.udp_port != clients_[asker].our_port || &port_of(asker) != ports_[p])
        status = wrong("it sent an answer to another client, or by another port");
      else if (datagram.header.type != expected && !is_question(*mbuf))
        status = wrong(fmt::format("it sent a {}", wire::type_name(datagram.header.type)));
      else if (options_.auth != wire::Auth::kNone &&
               !wire::open(rig_->keys()[datagram.header.request_id % rig_->keys().size()],
                           datagram))
        status = wrong("it sent a wrong tag");
      else if (expected == wire::Type::kStatus &&
               datagram.header.status != wire::StatusCode::kOverloaded)
        status = wrong(fmt::format("it sent {}", wire::status_name(datagram.header.status)));
    }
    free_frames(std::span(frames).first(count));
  }
  return status;
}

// Returns true if the worker asks for the missing piece of a request that stays incomplete.
bool WorkerLoad::is_question(const rte_mbuf& mbuf) const noexcept {
  const size_t type_at = net::udp_header_bytes(clients_[0]) + offsetof(wire::Header, type);
  return options_.fault == Fault::kDuplicate && mbuf.data_len > type_at &&
         *rte_pktmbuf_mtod_offset(&mbuf, const wire::Type*, type_at) == wire::Type::kResend;
}

void WorkerLoad::free_frames(std::span<rte_mbuf*> frames) noexcept {
  for (const rte_mbuf* mbuf : frames) num_questions_ += is_question(*mbuf);
  rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
}

Status WorkerLoad::check(uint32_t datagrams) {
  const uint64_t enough = arrivals_.num_to_fill() + datagrams;
  Status status;
  while (sent_ < enough && status) {
    build_round();
    while (put_burst() > 0 && status) {
      do {
        poll();
      } while (!is_empty());
      if (status) status = check_sent();
    }
    rig_->group().take();
    if (status) status = check_requests();
    rig_->group().give_back();
    while (poll() > 0)
      if (status) status = check_sent();
  }
  return status;
}

Status WorkerLoad::finish() {
  // With repeats, the first request is completed by its first piece.
  const Fault fault = options_.fault;
  while (const auto piece = arrivals_.next_to_finish()) {
    rte_mbuf* mbuf = build(*piece);
    bytes_sent_ += mbuf->pkt_len;
    ++sent_;
    port_of(client_of(piece->request)).put(std::span(&mbuf, 1));
    poll();
    serve();
  }
  settle();
  const pipeline::WorkerFigures figures = pipeline::total_figures(workers());
  const auto same = [](std::string_view what, uint64_t got, uint64_t expected) -> Status {
    if (got == expected) return {};
    return wrong(fmt::format("{} {}, {} expected", got, what, expected));
  };
  const bool refuses = fault == Fault::kOverloaded;
  const bool accepts = fault == Fault::kNone || fault == Fault::kDuplicate;
  // The first datagram of each tenant is fresh.
  const uint64_t fresh = fault == Fault::kReplayed ? options_.num_tenants : 0;
  const uint64_t complete = accepts ? arrivals_.num_complete() : fresh;
  const uint64_t forwarded = complete * options_.num_pieces();
  ITIF_TRY(same("datagrams received", figures.received, sent_));
  ITIF_TRY(same("bytes received", figures.received_bytes, bytes_sent_));
  ITIF_TRY(same("requests accepted", figures.requests, complete));
  ITIF_TRY(same("responses", figures.responses, complete));
  ITIF_TRY(same("statuses", figures.statuses, refuses ? sent_ : 0));
  ITIF_TRY(same("datagrams sent", figures.sent, (refuses ? sent_ : complete) + num_questions_));
  ITIF_TRY(same("datagrams forwarded", figures.forwarded, forwarded));
  const bool repeats = net::drop_class(reason_of(fault)) == net::DropClass::kRepeated;
  ITIF_TRY(same("datagrams repeated", figures.total_repeated(), repeats ? sent_ - forwarded : 0));
  ITIF_TRY(same("datagrams dropped", figures.total_dropped(), repeats ? 0 : sent_ - forwarded));
  if (fault != Fault::kNone)
    ITIF_TRY(same(net::drop_reason_name(reason_of(fault)),
                  figures.dropped[static_cast<size_t>(reason_of(fault))], sent_ - forwarded));
  ITIF_TRY(same("datagrams held", figures.held, 0));
  return same("requests in flight", rig_->in_flight(), 0);
}

}  // namespace itif::bench
