#include "flood.h"

#include <algorithm>
#include <cstring>

#include "wire/datagram.h"
#include "wire/geometry.h"

namespace itif::loadgen {
namespace {

constexpr uint64_t kHelloRepeat_ns = 50'000'000;
constexpr uint64_t kLongestTokenWait_ns = 1'000'000'000;

Schedule schedule_of(const Options& options, const SenderConfig& config, uint64_t start_ns) {
  return {options.arrivals == Arrivals::kPoisson,
          options.rate,
          start_ns,
          config.thread,
          options.threads,
          options.seed * 1'000'003 + config.thread};
}

}  // namespace

uint64_t FloodResults::total_damaged() const noexcept {
  uint64_t sum = 0;
  for (const uint64_t count : damaged) sum += count;
  return sum;
}

void FloodResults::merge(const FloodResults& other) noexcept {
  requests += other.requests;
  datagrams_sent += other.datagrams_sent;
  bytes_sent += other.bytes_sent;
  for (size_t i = 0; i < damaged.size(); ++i) damaged[i] += other.damaged[i];
  for (size_t i = 0; i < received.size(); ++i) received[i] += other.received[i];
  for (size_t i = 0; i < statuses.size(); ++i) statuses[i] += other.statuses[i];
  malformed_received += other.malformed_received;
  num_flows += other.num_flows;
  flows_with_token += other.flows_with_token;
  elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
}

Flooder::Flooder(const Clock& clock, client::Transport& transport, const SenderConfig& config)
    : clock_(clock),
      transport_(transport),
      config_(config),
      options_(*config.options),
      schedule_(schedule_of(options_, config, config.start_ns)),
      mix_(options_, *config.pool, options_.seed * 7'368'787 + config.thread),
      random_(options_.seed * 15'485'863 + config.thread),
      next_id_(config.first_request),
      flows_(transport.num_flows()),
      scratch_(kBatch * kMaxDamagedBytes) {
  for (size_t i = 0; i < flows_.size(); ++i)
    flows_[i].next_sequence = config.first_sequence + (uint64_t{i} << 44);
  const bool any_sealed = std::ranges::any_of(options_.targets, [](const Target& target) {
    return target.credential.auth == wire::Auth::kSealed;
  });
  if (any_sealed) sealed_.resize(kBatch * options_.fragment_bytes);
  results_.num_flows = static_cast<uint32_t>(flows_.size());
}

// Asks for the tokens that are missing or will soon be too old.
void Flooder::say_hellos(uint64_t now_ns) noexcept {
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    if (now_ns < flows_[i].hello_ns) continue;
    flows_[i].hello_ns = now_ns + kHelloRepeat_ns;
    wire::Header header;
    header.type = wire::Type::kHello;
    header.session = config_.session;
    std::array<std::byte, wire::kHeaderBytes> bytes;
    const client::Outgoing hello{
        .head = std::span(bytes).first(wire::build(header, {}, wire::Key{}, bytes)), .body = {}};
    (void)transport_.send(i, std::span(&hello, 1));
  }
}

void Flooder::keep_token(uint32_t flow, uint64_t token, uint32_t life_us) noexcept {
  if (flow >= flows_.size() || token == 0) return;
  if (flows_[flow].token == 0) ++results_.flows_with_token;
  flows_[flow].token = token;
  if (life_us != 0) flows_[flow].hello_ns = clock_.now_ns() + uint64_t{life_us} * 500;
}

bool Flooder::may_begin(uint64_t now_ns) const noexcept {
  return now_ns >= config_.start_ns && (results_.flows_with_token == flows_.size() ||
                                        now_ns >= config_.start_ns + kLongestTokenWait_ns);
}

void Flooder::make_damaged(size_t index, uint32_t target) noexcept {
  const auto damage = static_cast<Damage>(random_.below(kNumDamages));
  const auto out = std::span(scratch_).subspan(index * kMaxDamagedBytes, kMaxDamagedBytes);
  Flow& flow = flows_[flow_];
  const Origin origin{
      .session = config_.session, .token = flow.token, .sequence = flow.next_sequence++};
  const size_t bytes = damaged(damage, options_.targets[target], origin, next_id_++,
                               options_.payload_kind, current_.payload, random_, out);
  ++results_.damaged[static_cast<size_t>(damage)];
  batch_[index] = {.head = out.first(bytes), .body = {}};
}

void Flooder::make_piece(size_t index) noexcept {
  const client::Credential& credential = options_.targets[current_.target].credential;
  const auto total = static_cast<uint32_t>(current_.payload.size());
  const uint32_t bytes = wire::piece_bytes(total, options_.fragment_bytes, offset_);
  auto body = current_.payload.subspan(offset_, bytes);
  wire::Header header;
  header.type = wire::Type::kRequest;
  header.header_bytes = static_cast<uint8_t>(wire::header_size(credential.auth));
  header.auth = credential.auth;
  header.tenant_id = credential.tenant_id;
  header.session = config_.session;
  header.request_id = next_id_;
  header.total_bytes = total;
  header.offset = offset_;
  header.budget_us = current_.budget_us;
  header.payload_bytes = static_cast<uint16_t>(bytes);
  header.payload_kind = options_.payload_kind;
  header.result_kind = options_.result_kind;
  header.flags = options_.flags;
  header.key_epoch = credential.key_epoch;
  header.fragment_bytes = static_cast<uint16_t>(options_.fragment_bytes);
  header.sequence = flows_[flow_].next_sequence++;
  header.token = flows_[flow_].token;
  auto& head = heads_[index];
  std::memcpy(head.data(), &header, wire::kHeaderBytes);
  if (credential.auth != wire::Auth::kNone) {
    std::array<std::byte, wire::kTagBytes> tag;
    if (credential.auth == wire::Auth::kSealed) {
      const auto sealed = std::span(sealed_).subspan(index * options_.fragment_bytes, bytes);
      std::ranges::copy(body, sealed.begin());
      tag = wire::encrypt(credential.key, header, sealed);
      body = sealed;
    } else {
      tag = wire::compute_tag(credential.key, header, body);
    }
    std::memcpy(head.data() + wire::kHeaderBytes, tag.data(), wire::kTagBytes);
  }
  batch_[index] = {.head = std::span(head).first(header.header_bytes), .body = body};
  offset_ += options_.fragment_bytes;
  if (offset_ >= total) {
    in_request_ = false;
    ++next_id_;
    ++results_.requests;
    ++live_counts_.sent;
  }
}

void Flooder::make(size_t index) noexcept {
  if (!in_request_) {
    current_ = mix_.draw();
    offset_ = 0;
    if (options_.malform > 0 && random_.uniform() < options_.malform) {
      make_damaged(index, current_.target);
      return;
    }
    in_request_ = true;
  }
  make_piece(index);
}

void Flooder::receive() noexcept {
  std::array<client::Incoming, kBatch> incoming;
  for (size_t count = kBatch; count == kBatch;) {
    count = transport_.receive(incoming);
    for (const client::Incoming& arrived : std::span(incoming).first(count)) {
      wire::Datagram datagram;
      if (wire::parse(arrived.bytes, datagram) != wire::ParseError::kNone) {
        ++results_.malformed_received;
        continue;
      }
      const auto type = static_cast<size_t>(datagram.header.type);
      if (type < results_.received.size()) ++results_.received[type];
      if (datagram.header.type == wire::Type::kToken ||
          (datagram.header.type == wire::Type::kStatus &&
           datagram.header.status == wire::StatusCode::kTokenRequired))
        keep_token(arrived.flow, datagram.header.token, datagram.header.budget_us);
      if (datagram.header.type == wire::Type::kStatus) {
        const auto status = static_cast<size_t>(datagram.header.status);
        ++results_.statuses[std::min<size_t>(status, wire::kNumStatusCodes - 1)];
        ++live_counts_.refused;
      } else if (datagram.header.type == wire::Type::kResponse && datagram.header.offset == 0) {
        ++live_counts_.answered;
      }
    }
  }
}

bool Flooder::step() noexcept {
  receive();
  const uint64_t now_ns = clock_.now_ns();
  (void)live_.offer(live_counts_, no_latencies_);
  if (config_.stop->load(std::memory_order_relaxed) != 0) return false;
  say_hellos(now_ns);
  if (begin_ns_ == 0) {
    if (!may_begin(now_ns)) return true;
    begin_ns_ = now_ns;
    schedule_ = schedule_of(options_, config_, now_ns);
  }
  results_.elapsed_ns = now_ns - begin_ns_;
  if (results_.elapsed_ns >= options_.duration_ns) return false;
  if (options_.max_requests > 0 && results_.requests >= options_.max_requests) return false;
  if (batch_begin_ == batch_end_) {
    batch_begin_ = batch_end_ = 0;
    // The pieces of a request must share a flow, so the flow changes only between requests.
    if (!in_request_) flow_ = flow_ + 1 >= transport_.num_flows() ? 0 : flow_ + 1;
    while (batch_end_ < kBatch) {
      if (options_.rate_given && !in_request_) {
        if (schedule_.next_ns() > now_ns) break;
        schedule_.advance();
      }
      make(batch_end_++);
    }
  }
  const auto due = std::span(batch_).subspan(batch_begin_, batch_end_ - batch_begin_);
  if (due.empty()) return true;
  const size_t taken = transport_.send(flow_, due);
  for (const client::Outgoing& datagram : due.first(taken))
    results_.bytes_sent += datagram.head.size() + datagram.body.size();
  results_.datagrams_sent += taken;
  batch_begin_ += taken;
  return true;
}

void Flooder::run() noexcept {
  while (step()) {
    if (begin_ns_ == 0) {
      transport_.wait(1'000'000);
      continue;
    }
    if (!options_.rate_given || options_.busy || batch_begin_ != batch_end_) continue;
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t due_ns = schedule_.next_ns();
    if (due_ns > now_ns + 50'000) transport_.wait(std::min<uint64_t>(due_ns - now_ns, 50'000'000));
  }
  const uint64_t drain_ns = std::min<uint64_t>(options_.drain_ns, 200'000'000);
  const uint64_t end_ns = clock_.now_ns() + drain_ns;
  while (clock_.now_ns() < end_ns) {
    transport_.wait(10'000'000);
    receive();
  }
  live_.end(live_counts_, no_latencies_);
}

}  // namespace itif::loadgen
