// See server_model.h.
#include "tests/unit/client/server_model.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/geometry.h"
#include "wire/ranges.h"

namespace itif::client::test {

Bytes make_payload(const Order& order, size_t bytes) {
  Bytes payload(std::max(bytes, sizeof(Order)));
  Random filler(order.seed);
  for (std::byte& b : payload) b = static_cast<std::byte>(filler.next());
  std::memcpy(payload.data(), &order, sizeof(order));
  return payload;
}

Bytes make_response(const Order& order) {
  Bytes response(order.response_bytes);
  Random filler(~uint64_t{order.seed});
  for (std::byte& b : response) b = static_cast<std::byte>(filler.next());
  return response;
}

uint64_t ServerModel::token_of(uint32_t flow, uint32_t session, uint64_t period) const {
  const std::array<std::byte, 4> address{};
  return wire::address_token(
      secret_, {.address = address, .port = static_cast<uint16_t>(flow), .session = session},
      period);
}

void ServerModel::send(uint32_t flow, wire::Header header, std::span<const std::byte> payload,
                       const wire::Key& key) {
  if (header.type != wire::Type::kToken) header.sequence = next_sequence_++;
  Bytes bytes(wire::kHeaderBytes + wire::kTagBytes + payload.size());
  bytes.resize(wire::build(header, payload, key, bytes));
  send_(flow, std::move(bytes));
}

void ServerModel::send_status(const wire::Header& to, uint32_t flow, wire::StatusCode code,
                              const Credential* credential, uint32_t aux, uint64_t token) {
  wire::Header header = wire::reply_header(to, wire::Type::kStatus);
  header.status = code;
  header.aux = aux;
  header.token = token;
  if (credential == nullptr) {
    header.auth = wire::Auth::kNone;
    header.key_epoch = 0;
  }
  const std::string_view text = token == 0 ? "because" : "";  // no larger than the request
  send(flow, header, std::as_bytes(std::span(text)),
       credential == nullptr ? wire::Key{} : credential->key);
}

// Numbers as far behind the newest as this are refused unseen.
constexpr uint64_t kWindow = 2048 - 64;

const Credential* ServerModel::admit(uint32_t flow, const wire::Datagram& datagram) {
  const wire::Header& header = datagram.header;
  const auto tenant = tenants_.find(header.tenant_id);
  if (tenant == tenants_.end()) {
    if (options_.answer_strangers && header.offset == 0)
      send_status(header, flow, wire::StatusCode::kUnknownTenant, nullptr);
    ++refused_datagrams;
    return nullptr;
  }
  const Credential& credential = tenant->second;
  if (header.auth != credential.auth ||
      (header.auth != wire::Auth::kNone && !wire::open(credential.key, datagram))) {
    ++refused_datagrams;
    return nullptr;
  }
  std::set<uint64_t>& seen = seen_[{header.tenant_id, header.session, flow}];
  if ((!seen.empty() && header.sequence + kWindow < *seen.rbegin()) ||
      !seen.insert(header.sequence).second) {
    ++replayed;
    return nullptr;
  }
  return &credential;
}

bool ServerModel::has_token(uint32_t flow, const wire::Header& header) const {
  const uint64_t period = clock_.now_ns() / options_.token_life_ns;
  return header.token == token_of(flow, header.session, period) ||
         header.token == token_of(flow, header.session, period - 1);
}

void ServerModel::on_datagram(uint32_t flow, Bytes bytes) {
  wire::Datagram datagram;
  if (wire::parse(bytes, datagram) != wire::ParseError::kNone) {
    ++refused_datagrams;
    return;
  }
  const wire::Header& header = datagram.header;
  const RequestKey key{header.session, header.request_id};
  const uint64_t period = clock_.now_ns() / options_.token_life_ns;
  switch (header.type) {
    case wire::Type::kRequest: on_request(flow, datagram); return;
    case wire::Type::kHello: {
      wire::Header token = wire::reply_header(header, wire::Type::kToken);
      token.token = token_of(flow, header.session, period);
      token.budget_us = static_cast<uint32_t>(options_.token_life_ns / 1000);
      ++tokens_given;
      send(flow, token, {}, wire::Key{});
      return;
    }
    case wire::Type::kAck:
    case wire::Type::kResend: break;
    default: ++refused_datagrams; return;
  }
  if (admit(flow, datagram) == nullptr) return;
  if (!has_token(flow, header)) {
    ++token_refusals;
    return;
  }
  const auto found = contexts_.find(key);
  if (found == contexts_.end()) return;
  Context& context = found->second;
  context.flow = flow;
  if (header.type == wire::Type::kAck) {
    ++acks;
    return;
  }
  std::array<wire::Range, wire::kMaxRanges> ranges;
  const size_t count = wire::parse_ranges(datagram.payload, header.total_bytes, ranges);
  if (count == 0 || count * sizeof(wire::Range) > header.fragment_bytes || !context.answered ||
      header.total_bytes != context.order.response_bytes ||
      !(header.flags & wire::kFlagOfResponse)) {
    ++refused_datagrams;
    return;
  }
  for (size_t i = 0; i < count; ++i)
    send_pieces(context, ranges[i].offset, ranges[i].offset + ranges[i].bytes);
}

void ServerModel::on_request(uint32_t flow, const wire::Datagram& datagram) {
  const wire::Header& header = datagram.header;
  const Credential* const admitted = admit(flow, datagram);
  if (admitted == nullptr) return;
  const Credential& credential = *admitted;
  if (!has_token(flow, header)) {
    ++token_refusals;
    if (header.offset == 0)
      send_status(header, flow, wire::StatusCode::kTokenRequired, &credential, 0,
                  token_of(flow, header.session, clock_.now_ns() / options_.token_life_ns));
    return;
  }
  const auto [entry, is_new] = contexts_.try_emplace({header.session, header.request_id});
  Context& context = entry->second;
  if (is_new) {
    budgets_us.push_back(header.budget_us);
    context.credential = credential;
    context.flow = flow;
    context.created_ns = clock_.now_ns();
    context.header = header;
    context.payload.resize(header.total_bytes);
    context.here.resize(wire::num_pieces(header.total_bytes, header.fragment_bytes));
    context.num_missing = context.here.size();
  }
  context.flow = flow;
  if (context.answered) {
    answer(context);
    return;
  }
  if (context.num_missing == 0) {
    wire::Header busy = wire::reply_header(header, wire::Type::kBusy);
    busy.aux = 1;
    busy.budget_us = busy_us;
    send(flow, busy, {}, credential.key);
    return;
  }
  if (header.total_bytes != context.payload.size() ||
      header.fragment_bytes != context.header.fragment_bytes) {
    ++refused_datagrams;
    return;
  }
  const size_t piece = header.offset / header.fragment_bytes;
  if (!context.here[piece]) {
    context.here[piece] = true;
    std::copy(datagram.payload.begin(), datagram.payload.end(),
              context.payload.begin() + header.offset);
    --context.num_missing;
  }
  if (context.num_missing > 0) {
    context.ask_ns = clock_.now_ns() + options_.resend_after_ns;
    return;
  }
  std::memcpy(&context.order, context.payload.data(), sizeof(Order));
  if (context.payload != make_payload(context.order, context.payload.size())) {
    ++wrong_payloads;
    context.order = {.status = static_cast<uint32_t>(wire::StatusCode::kMalformed)};
  }
  context.done_ns = clock_.now_ns() + uint64_t{context.order.service_us} * 1000;
  context.run = ++executed;
}

void ServerModel::send_pieces(const Context& context, uint32_t from, uint32_t to) {
  const Bytes response = make_response(context.order);
  const auto total = static_cast<uint32_t>(response.size());
  const uint32_t fragment = options_.fragment_bytes;
  uint32_t offset = from / fragment * fragment;
  uint32_t num_sent = 0;
  do {
    if (forget_after_pieces != 0 && num_sent++ == forget_after_pieces) {
      forget_after_pieces = 0;
      forgotten_.push_back({context.header.session, context.header.request_id});
      return;
    }
    wire::Header header = wire::reply_header(context.header, wire::Type::kResponse);
    header.total_bytes = total;
    header.fragment_bytes = static_cast<uint16_t>(fragment);
    header.offset = offset;
    header.result_kind = wire::ResultKind::kHidden;
    header.budget_us = context.order.service_us;
    header.token = context.run;
    header.aux = 7;
    const uint32_t bytes = wire::piece_bytes(total, fragment, offset);
    send(context.flow, header, std::span(response).subspan(offset, bytes), context.credential.key);
    offset += fragment;
  } while (offset < to);
}

void ServerModel::answer(Context& context) {
  const Order& order = context.order;
  if (!context.answered && overloaded_[order.seed] < order.overloaded) {
    ++overloaded_[order.seed];
    context.overloaded = true;
  }
  context.answered = true;
  if (context.overloaded) {
    send_status(context.header, context.flow, wire::StatusCode::kOverloaded, &context.credential,
                2000);
  } else if (order.status != 0) {
    send_status(context.header, context.flow, static_cast<wire::StatusCode>(order.status),
                &context.credential);
  } else {
    send_pieces(context, 0, order.response_bytes);
  }
}

void ServerModel::ask_for_missing(Context& context) {
  std::vector<wire::Range> ranges;
  const auto total = static_cast<uint32_t>(context.payload.size());
  const uint32_t fragment = context.header.fragment_bytes;
  for (size_t i = 0; i < context.here.size() && ranges.size() < wire::kMaxRanges; ++i) {
    if (context.here[i]) continue;
    const auto offset = static_cast<uint32_t>(i) * fragment;
    const uint32_t bytes = wire::piece_bytes(total, fragment, offset);
    if (!ranges.empty() && ranges.back().offset + ranges.back().bytes == offset)
      ranges.back().bytes += bytes;
    else
      ranges.push_back({offset, bytes});
  }
  Bytes payload(ranges.size() * sizeof(wire::Range));
  payload.resize(wire::build_ranges(ranges, total, payload));
  wire::Header header = wire::reply_header(context.header, wire::Type::kResend);
  header.total_bytes = total;
  header.fragment_bytes = static_cast<uint16_t>(fragment);
  ++resends_asked;
  send(context.flow, header, payload, context.credential.key);
}

void ServerModel::poll() {
  const uint64_t now_ns = clock_.now_ns();
  std::erase_if(contexts_, [&](const auto& entry) {
    const Context& context = entry.second;
    return context.num_missing > 0 && now_ns > context.created_ns + options_.context_life_ns;
  });
  for (const RequestKey& key : std::exchange(forgotten_, {})) contexts_.erase(key);
  for (auto& [key, context] : contexts_) {
    if (context.answered) continue;
    if (context.num_missing == 0) {
      if (now_ns < context.done_ns) continue;
      answer(context);
    } else if (now_ns >= context.ask_ns) {
      ask_for_missing(context);
      context.ask_ns = now_ns + options_.resend_after_ns * 4;
    }
  }
}

uint64_t ServerModel::next_event_ns() const {
  uint64_t next = UINT64_MAX;
  for (const auto& [key, context] : contexts_) {
    if (!context.answered)
      next = std::min(next, context.num_missing == 0 ? context.done_ns : context.ask_ns);
  }
  return next;
}

}  // namespace itif::client::test
