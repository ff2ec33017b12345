// Requests that this process itself sends to groups, as a worker does for clients. Control checks a
// new model with them before it serves.
//
// Payloads are in packet buffers, which every device can read. A request that is not answered in
// time stays lent to its group, and keeps its lease, until the group gives it back.
//
// Control's job thread owns it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "pipeline/group_inbox.h"
#include "pipeline/return_ring.h"
#include "request/request.h"
#include "tenant/snapshot.h"

struct rte_mempool;
struct rte_mbuf;

namespace itif::pipeline {

class LocalRequests {
 public:
  // `worker`: the index of returns() among the return rings of each group. `pool` and `clock`
  // outlive the object. Errors: kResourceExhausted.
  static Result<std::unique_ptr<LocalRequests>> create(uint16_t worker, rte_mempool* pool,
                                                       const Clock& clock);
  ~LocalRequests();  // REQUIRES: the groups have ended

  ReturnRing& returns() noexcept { return *returns_; }

  struct Question {
    wire::PayloadKind payload_kind = wire::PayloadKind::kText;
    wire::ResultKind result_kind = wire::ResultKind::kDefault;
    uint16_t flags = 0;
    std::span<const std::byte> payload;
  };
  struct Answer {
    wire::StatusCode status = wire::StatusCode::kOk;
    std::string detail;  // of another status
    uint32_t retry_after_us = 0;
    wire::ResultKind result_kind = wire::ResultKind::kDefault;
    std::vector<std::byte> result;
  };
  // Sends one request to the group of `model` and waits for its end. Calls `gives_up` periodically,
  // and stops waiting once it returns true. Errors: kUnavailable (given up), kResourceExhausted
  // (packet buffers, or too many requests given up).
  Result<Answer> ask(GroupInbox& inbox, const tenant::ServedModel& model, const Question& question,
                     const std::function<bool()>& gives_up);
  // Frees requests that were given up and have ended since.
  void collect() noexcept;

 private:
  struct Lent {
    request::Request request;  // must be the first member
    std::vector<rte_mbuf*> packets;
    std::vector<request::Piece> pieces;
    std::shared_ptr<tenant::Lease> lease;
    bool has_ended = false;
    ~Lent();
  };

  LocalRequests(uint16_t worker, rte_mempool* pool, const Clock& clock)
      : worker_(worker), pool_(pool), clock_(clock) {}
  Status fill(Lent& lent, std::span<const std::byte> payload);

  const uint16_t worker_;
  rte_mempool* const pool_;
  const Clock& clock_;
  std::unique_ptr<ReturnRing> returns_;
  std::list<Lent> lent_;
};

}  // namespace itif::pipeline
