// A minimal data plane: answers requests on a UDP socket on loopback.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "wire/datagram.h"

namespace itif::control {

// Answers hellos, and requests of one datagram with the right address token and tag: with tokens or
// text on request, else classes.
class Responder {
 public:
  explicit Responder(wire::Key key)
      : key_(key), fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Responder() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
  }

  uint16_t port = 0;
  std::atomic<wire::StatusCode> refuse_with{wire::StatusCode::kOk};
  std::atomic<uint16_t> seen_epoch{0};
  std::atomic<wire::Auth> seen_auth{wire::Auth::kNone};
  std::string seen_text() {
    const std::lock_guard lock(mutex_);
    return seen_text_;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd item{fd_, POLLIN, 0};
      if (::poll(&item, 1, 20) <= 0) continue;
      std::byte bytes[2048];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got =
          ::recvfrom(fd_, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
      wire::Datagram request;
      if (got <= 0 ||
          wire::parse({bytes, static_cast<size_t>(got)}, request) != wire::ParseError::kNone)
        continue;
      std::byte reply[2048];
      if (request.header.type == wire::Type::kHello) {
        wire::Header token = wire::reply_header(request.header, wire::Type::kToken);
        token.token = kToken;
        ::sendto(fd_, reply, wire::build(token, {}, key_, reply), 0,
                 reinterpret_cast<sockaddr*>(&from), size);
        continue;
      }
      if (request.header.type != wire::Type::kRequest || request.header.token != kToken ||
          !wire::open(key_, request))
        continue;
      seen_epoch = request.header.key_epoch;
      seen_auth = request.header.auth;
      {
        const std::lock_guard lock(mutex_);
        seen_text_.assign(reinterpret_cast<const char*>(request.payload.data()),
                          request.payload.size());
      }
      const size_t reply_bytes = answer(request.header, reply);
      ::sendto(fd_, reply, reply_bytes, 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
  size_t answer(const wire::Header& request, std::span<std::byte> out) {
    wire::Header header;
    header.tenant_id = request.tenant_id;
    header.session = request.session;
    header.request_id = request.request_id;
    header.auth = request.auth;
    header.key_epoch = request.key_epoch;
    header.sequence = ++sequence_;
    if (refuse_with != wire::StatusCode::kOk) {
      header.type = wire::Type::kStatus;
      header.status = refuse_with;
      return wire::build(header, {}, key_, out);
    }
    header.type = wire::Type::kResponse;
    if ((request.flags & wire::kFlagModelVersion) != 0) wire::set_model_version(header, 7);
    header.fragment_bytes = wire::kDefaultFragmentBytes;
    header.budget_us = 1234;
    std::vector<std::byte> payload;
    const auto put = [&](const void* data, size_t size) {
      const auto* bytes = static_cast<const std::byte*>(data);
      payload.insert(payload.end(), bytes, bytes + size);
    };
    if (request.result_kind == wire::ResultKind::kTokens ||
        request.result_kind == wire::ResultKind::kText) {
      const uint32_t ids[] = {17, 58100, 0};
      const bool tokens = request.result_kind == wire::ResultKind::kTokens;
      put(tokens ? static_cast<const void*>(ids) : "ein Tag", tokens ? sizeof(ids) : 7);
      header.result_kind = request.result_kind;
      header.total_bytes = static_cast<uint32_t>(payload.size());
      header.aux = tokens ? 3 : 1;
      return wire::build(header, payload, key_, out);
    }
    // {index 1, 0.9, "POSITIVE"}, {index 0, 0.1, "NEGATIVE"}
    for (const uint32_t index : {1u, 0u}) {
      const float probability = index == 1 ? 0.9f : 0.1f;
      const uint32_t name_bytes = 8;
      put(&index, 4);
      put(&probability, 4);
      put(&name_bytes, 4);
      put(index == 1 ? "POSITIVE" : "NEGATIVE", 8);
    }
    header.result_kind = wire::ResultKind::kClasses;
    header.total_bytes = static_cast<uint32_t>(payload.size());
    header.aux = 2;
    return wire::build(header, payload, key_, out);
  }

  static constexpr uint64_t kToken = 0x123456789abcdef0;

  const wire::Key key_;
  uint64_t sequence_ = 0;
  const int fd_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string seen_text_;
  std::thread thread_;
};

}  // namespace itif::control
