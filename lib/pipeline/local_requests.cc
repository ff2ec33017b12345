#include "pipeline/local_requests.h"

#include <fmt/format.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace itif::pipeline {
namespace {

constexpr uint32_t kMaxLent = 16;
constexpr std::chrono::microseconds kPollPeriod{200};

}  // namespace

LocalRequests::Lent::~Lent() {
  for (rte_mbuf* packet : packets) rte_pktmbuf_free(packet);
  std::free(request.result.data);
}

Result<std::unique_ptr<LocalRequests>> LocalRequests::create(uint16_t worker, rte_mempool* pool,
                                                             const Clock& clock) {
  std::unique_ptr<LocalRequests> made(new LocalRequests(worker, pool, clock));
  ITIF_ASSIGN(made->returns_, ReturnRing::create(fmt::format("itif_local_{}", worker), kMaxLent));
  return made;
}

LocalRequests::~LocalRequests() = default;

// Copies the payload to packet buffers.
Status LocalRequests::fill(Lent& lent, std::span<const std::byte> payload) {
  do {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
    if (packet == nullptr)
      return fail(Code::kResourceExhausted,
                  "no packet buffer is free for a sample: raise data_plane.mbufs");
    lent.packets.push_back(packet);
    // Pieces begin at multiples of 4.
    const size_t bytes =
        std::min<size_t>(payload.size(), rte_pktmbuf_tailroom(packet) & ~size_t{3});
    auto* data = rte_pktmbuf_mtod(packet, std::byte*);
    if (bytes > 0) std::memcpy(data, payload.data(), bytes);
    lent.pieces.push_back({data, static_cast<uint32_t>(bytes)});
    payload = payload.subspan(bytes);
  } while (!payload.empty());
  return {};
}

Result<LocalRequests::Answer> LocalRequests::ask(GroupInbox& inbox,
                                                 const tenant::ServedModel& model,
                                                 const Question& question,
                                                 const std::function<bool()>& gives_up) {
  collect();
  if (lent_.size() == kMaxLent)
    return fail(Code::kResourceExhausted, "too many samples of earlier models have not ended yet");
  Lent& lent = lent_.emplace_back();
  if (Status filled = fill(lent, question.payload); !filled) {
    lent_.pop_back();
    return std::unexpected(filled.error());
  }
  request::Request& request = lent.request;
  request.payload_kind = question.payload_kind;
  request.result_kind = question.result_kind;
  request.flags = question.flags;
  request.payload_bytes = static_cast<uint32_t>(question.payload.size());
  request.pieces = lent.pieces;
  request.slot = model.slot;
  request.group = model.group;
  request.worker = worker_;
  request.in_flight = &model.lease->row(worker_);
  request.arrival_ns = request.complete_ns = clock_.now_ns();
  lent.lease = model.lease;
  request.in_flight->add();
  inbox.push(&request);
  for (;;) {
    collect();
    if (lent.has_ended) break;
    if (gives_up()) return fail(Code::kUnavailable, "the samples are not answered in time");
    std::this_thread::sleep_for(kPollPeriod);
  }
  Answer answer;
  answer.status = request.status;
  answer.detail = request.detail;
  answer.retry_after_us = request.retry_after_us;
  answer.result_kind = request.result_kind_out;
  answer.result.assign(request.result.data, request.result.data + request.result.bytes);
  lent_.pop_back();
  return answer;
}

void LocalRequests::collect() noexcept {
  ReturnRing::Item item;
  while (returns_->pop(&item, 1) == 1) {
    if (!item.has_ended()) continue;  // its packets are back, but are freed with the request
    Lent& lent = reinterpret_cast<Lent&>(item.request());
    lent.has_ended = true;
    lent.request.in_flight->remove();
  }
  // Skips the newest request: ask() frees that one.
  for (auto at = lent_.begin(); at != lent_.end() && std::next(at) != lent_.end();)
    at = at->has_ended ? lent_.erase(at) : std::next(at);
}

}  // namespace itif::pipeline
