#include "flood.h"

#include <algorithm>
#include <cstring>

#include "wire/datagram.h"
#include "wire/geometry.h"

namespace itif::loadgen {

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
  elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
}

Flooder::Flooder(const Clock& clock, client::Transport& transport, const SenderConfig& config)
    : clock_(clock),
      transport_(transport),
      config_(config),
      options_(*config.options),
      until_ns_(config.start_ns + options_.duration_ns),
      schedule_(options_.arrivals == Arrivals::kPoisson, options_.rate, config.start_ns,
                config.thread, options_.threads, options_.seed * 1'000'003 + config.thread),
      mix_(options_, *config.pool, options_.seed * 7'368'787 + config.thread),
      random_(options_.seed * 15'485'863 + config.thread),
      next_id_(config.first_request),
      scratch_(kBatch * kMaxDamagedBytes) {}

void Flooder::make_damaged(size_t index, uint32_t target) noexcept {
  const auto damage = static_cast<Damage>(random_.below(kNumDamages));
  const auto out = std::span(scratch_).subspan(index * kMaxDamagedBytes, kMaxDamagedBytes);
  const size_t bytes = damaged(damage, options_.targets[target], config_.session, next_id_++,
                               options_.payload_kind, current_.payload, random_, out);
  ++results_.damaged[static_cast<size_t>(damage)];
  batch_[index] = {.head = out.first(bytes), .body = {}};
}

void Flooder::make_piece(size_t index) noexcept {
  const client::Credential& credential = options_.targets[current_.target].credential;
  const auto total = static_cast<uint32_t>(current_.payload.size());
  const uint32_t bytes = wire::piece_bytes(total, options_.fragment_bytes, offset_);
  const auto body = current_.payload.subspan(offset_, bytes);
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
  auto& head = heads_[index];
  std::memcpy(head.data(), &header, wire::kHeaderBytes);
  if (credential.auth != wire::Auth::kNone) {
    const auto tag = wire::compute_tag(credential.key, header, body);
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
  results_.elapsed_ns = now_ns - config_.start_ns;
  if (now_ns >= until_ns_ || config_.stop->load(std::memory_order_relaxed) != 0) return false;
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
