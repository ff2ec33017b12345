#include "client/socket_transport.h"

#include <fmt/format.h>
#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

namespace itif::client {
namespace {

constexpr uint32_t kBatch = 64;
constexpr size_t kBufferBytes = 9216;  // more than any datagram of the protocol; a multiple of 64
constexpr uint32_t kMaxFlows = 1024;
constexpr int kMaxQueuedErrors = 64;  // read at once, of a socket

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

Status resolve(const std::string& host, uint16_t port, int family, int flags, AddressList& out) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &out.first);
  if (error == 0) return {};
  return fail(Code::kNotFound, fmt::format("'{}' is not an address or a known host name: {}", host,
                                           gai_strerror(error)));
}

std::unexpected<Error> socket_error(const char* what, const std::string& where) {
  const int error = errno;
  Code code = Code::kUnavailable;
  const char* remedy = "check the address and the route to it (ip route get)";
  if (error == EACCES || error == EPERM) {
    code = Code::kPermission;
    remedy = "a firewall or a missing privilege forbids it";
  } else if (error == EMFILE || error == ENFILE) {
    code = Code::kResourceExhausted;
    remedy = "use fewer flows or raise the limit of open files (ulimit -n)";
  } else if (error == EADDRNOTAVAIL) {
    code = Code::kInvalidArgument;
    remedy = "name an address of this machine";
  }
  return fail(code, fmt::format("{} {}: {}; {}", what, where, errno_text(error), remedy));
}

// Errors of the kernel or of ICMP which say that the server cannot be reached.
bool says_unreachable(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EHOSTDOWN || error == ENETDOWN || error == EACCES || error == EPERM;
}

std::string why_unreachable(int error, const std::string& server, const std::string& where) {
  switch (error) {
    case ECONNREFUSED:
      return fmt::format(
          "nobody listens on {}: the host is there, but the port is closed (ICMP port "
          "unreachable): start itifd, or correct the address or port",
          where);
    case EHOSTUNREACH:
    case EHOSTDOWN:
      return fmt::format(
          "no host answers for {} ({}): check that it runs, its address, and the way to it (ip "
          "route get {}; ip neighbour)",
          where, errno_text(error), server);
    case EACCES:
    case EPERM:
      return fmt::format("a firewall forbids datagrams to {} ({}): nft list ruleset", where,
                         errno_text(error));
    default:
      return fmt::format("there is no route to {} ({}): ip route get {}", where, errno_text(error),
                         server);
  }
}

// Best effort: an option that the kernel lacks changes speed, not behaviour.
void set_option(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void set_buffer(int fd, int name, int forced_name, uint32_t bytes) {
  if (bytes == 0) return;
  const int value = static_cast<int>(std::min<uint32_t>(bytes, 1u << 30));
  // SO_RCVBUFFORCE and SO_SNDBUFFORCE ignore net.core.[rw]mem_max but need CAP_NET_ADMIN.
  if (setsockopt(fd, SOL_SOCKET, forced_name, &value, sizeof(value)) != 0)
    set_option(fd, SOL_SOCKET, name, value);
}

void set_options(int fd, int family, const SocketOptions& options) {
  set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer_bytes);
  set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer_bytes);
  if (options.busy_poll_us > 0)
    set_option(fd, SOL_SOCKET, SO_BUSY_POLL, static_cast<int>(options.busy_poll_us));
  // RECVERR: without it the kernel reports a closed port, but not an absent host.
  if (family == AF_INET) {
    set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
    set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
  }
}

// Empties the socket's queue of errors, which would otherwise end each wait. Returns the last one;
// 0: none was queued.
int take_queued_errors(int fd) {
  int last = 0;
  for (int i = 0; i < kMaxQueuedErrors; ++i) {
    alignas(cmsghdr) std::array<std::byte, 512> control;
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      const bool is_error = (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR) ||
                            (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR);
      if (!is_error) continue;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(part), sizeof(error));
      last = static_cast<int>(error.ee_errno);
    }
  }
  return last;
}

// Reads one end of a socket; returns its IP version, 0 on failure.
uint8_t read_end(int fd, int (*get)(int, sockaddr*, socklen_t*), std::array<uint8_t, 16>& address,
                 uint16_t& port) {
  sockaddr_storage end{};
  socklen_t bytes = sizeof(end);
  if (get(fd, reinterpret_cast<sockaddr*>(&end), &bytes) != 0) return 0;
  if (end.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(end);
    std::memcpy(address.data(), &ipv6.sin6_addr, 16);
    port = ntohs(ipv6.sin6_port);
    return 6;
  }
  const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(end);
  std::memcpy(address.data(), &ipv4.sin_addr, 4);
  port = ntohs(ipv4.sin_port);
  return 4;
}

SocketAddresses ends_of(int fd) {
  SocketAddresses ends;
  ends.ip_version = read_end(fd, getsockname, ends.local, ends.local_port);
  (void)read_end(fd, getpeername, ends.server, ends.server_port);
  return ends;
}

}  // namespace

struct SocketTransport::Sockets {
  ~Sockets() {
    for (const pollfd& entry : polled) close(entry.fd);
  }

  void note(int error) noexcept {
    stats.last_errno = error;
    if (error == EMSGSIZE) {
      ++stats.too_big;
    } else if (says_unreachable(error)) {
      ++stats.unreachable;
      unreachable_errno = error;
    } else {
      ++stats.other_errors;
    }
  }

  std::string server, where;
  int unreachable_errno = 0;   // the last; 0: none
  std::vector<pollfd> polled;  // one socket per flow
  std::vector<SocketAddresses> ends;
  uint32_t next_flow = 0;  // the flow that receive() reads first, so that none starves
  uint32_t receive_buffer_bytes = 0;
  SocketStats stats;
  std::vector<std::byte> memory;
  std::array<iovec, kBatch> receive_vectors;
  std::array<mmsghdr, kBatch> receive_headers;
  std::array<std::array<iovec, 2>, kBatch> send_vectors;
  std::array<mmsghdr, kBatch> send_headers;
};

SocketTransport::SocketTransport(std::unique_ptr<Sockets> sockets) : sockets_(std::move(sockets)) {
  Sockets& s = *sockets_;
  s.memory.resize(kBatch * kBufferBytes);
  for (uint32_t i = 0; i < kBatch; ++i) {
    s.receive_vectors[i] = {s.memory.data() + i * kBufferBytes, kBufferBytes};
    s.receive_headers[i] = {};
    s.receive_headers[i].msg_hdr.msg_iov = &s.receive_vectors[i];
    s.receive_headers[i].msg_hdr.msg_iovlen = 1;
    s.send_headers[i] = {};
    s.send_headers[i].msg_hdr.msg_iov = s.send_vectors[i].data();
  }
}

SocketTransport::~SocketTransport() = default;

Result<std::unique_ptr<SocketTransport>> SocketTransport::connect(const SocketOptions& options) {
  if (options.num_flows == 0 || options.num_flows > kMaxFlows)
    return fail(Code::kInvalidArgument,
                fmt::format("num_flows is {}: choose 1 to {}", options.num_flows, kMaxFlows));
  if (options.port == 0) return fail(Code::kInvalidArgument, "the server's port is 0");
  AddressList remote, local;
  ITIF_TRY(resolve(options.server, options.port, AF_UNSPEC, 0, remote));
  if (!options.local.empty())
    ITIF_TRY(resolve(options.local, 0, remote.first->ai_family, AI_PASSIVE, local));

  const std::string where = fmt::format("{} port {}", options.server, options.port);
  auto sockets = std::make_unique<Sockets>();
  sockets->server = options.server;
  sockets->where = where;
  for (uint32_t i = 0; i < options.num_flows; ++i) {
    const int fd = socket(remote.first->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return socket_error("cannot make a socket for", where);
    sockets->polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    set_options(fd, remote.first->ai_family, options);
    if (local.first != nullptr && bind(fd, local.first->ai_addr, local.first->ai_addrlen) != 0)
      return socket_error("cannot send from", options.local);
    if (::connect(fd, remote.first->ai_addr, remote.first->ai_addrlen) != 0)
      return socket_error("cannot reach", where);
    sockets->ends.push_back(ends_of(fd));
  }
  int given = 0;
  socklen_t bytes = sizeof(given);
  if (getsockopt(sockets->polled[0].fd, SOL_SOCKET, SO_RCVBUF, &given, &bytes) == 0)
    sockets->receive_buffer_bytes = static_cast<uint32_t>(given);
  return std::unique_ptr<SocketTransport>(new SocketTransport(std::move(sockets)));
}

uint32_t SocketTransport::num_flows() const noexcept {
  return static_cast<uint32_t>(sockets_->polled.size());
}

size_t SocketTransport::send(uint32_t flow, std::span<const Outgoing> batch) noexcept {
  Sockets& s = *sockets_;
  const int fd = s.polled[flow].fd;
  size_t taken = 0;
  bool error_was_reported = false;
  while (taken < batch.size()) {
    const auto count = static_cast<unsigned>(std::min<size_t>(kBatch, batch.size() - taken));
    for (unsigned i = 0; i < count; ++i) {
      const Outgoing& datagram = batch[taken + i];
      s.send_vectors[i][0] = {const_cast<std::byte*>(datagram.head.data()), datagram.head.size()};
      s.send_vectors[i][1] = {const_cast<std::byte*>(datagram.body.data()), datagram.body.size()};
      s.send_headers[i].msg_hdr.msg_iovlen = datagram.body.empty() ? 1 : 2;
    }
    const int sent = sendmmsg(fd, s.send_headers.data(), count, MSG_DONTWAIT);
    if (sent > 0) {
      taken += static_cast<size_t>(sent);
      error_was_reported = false;
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS) break;
    s.note(error);
    // The error may be an ICMP message about an earlier datagram: try this one once more.
    if (says_unreachable(error) && !std::exchange(error_was_reported, true)) continue;
    ++taken;  // cannot be sent: the request's timers handle the loss
    error_was_reported = false;
  }
  return taken;
}

size_t SocketTransport::receive(std::span<Incoming> batch) noexcept {
  Sockets& s = *sockets_;
  const auto capacity = static_cast<uint32_t>(std::min<size_t>(kBatch, batch.size()));
  const uint32_t flows = num_flows();
  uint32_t filled = 0;
  for (uint32_t i = 0; i < flows && filled < capacity; ++i) {
    const uint32_t flow = s.next_flow;
    s.next_flow = flow + 1 == flows ? 0 : flow + 1;
    pollfd& socket = s.polled[flow];
    int count;
    bool has_error = false;
    do {
      count =
          recvmmsg(socket.fd, &s.receive_headers[filled], capacity - filled, MSG_DONTWAIT, nullptr);
      // A pending error is reported once, in place of a datagram.
      if (count < 0 && says_unreachable(errno)) {
        s.note(errno);
        has_error = true;
      }
    } while (count < 0 && (errno == EINTR || says_unreachable(errno)));
    if (has_error || (socket.revents & POLLERR) != 0) {
      const int queued = take_queued_errors(socket.fd);
      if (!has_error && says_unreachable(queued)) s.note(queued);
      socket.revents = 0;
    }
    s.stats.received += static_cast<uint64_t>(std::max(count, 0));
    for (int k = 0; k < count; ++k, ++filled) {
      std::byte* start = s.memory.data() + filled * kBufferBytes;
      batch[filled] = {.flow = flow, .bytes = {start, s.receive_headers[filled].msg_len}};
    }
  }
  return filled;
}

Result<SocketOptions> parse_server(const std::string& text, SocketOptions options) {
  const auto wrong = [&] {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not HOST, HOST:PORT or [IPV6]:PORT", text));
  };
  std::optional<std::string> port;
  options.server = text;  // default: no port
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return wrong();
    options.server = text.substr(1, end - 1);
    if (end + 1 < text.size()) {
      if (text[end + 1] != ':') return wrong();
      port = text.substr(end + 2);
    }
  } else if (std::ranges::count(text, ':') == 1) {
    options.server = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  if (options.server.empty()) return wrong();
  if (!port) return options;
  const auto [end, error] =
      std::from_chars(port->data(), port->data() + port->size(), options.port);
  if (error != std::errc() || end != port->data() + port->size() || options.port == 0)
    return wrong();
  return options;
}

void SocketTransport::wait(uint64_t timeout_ns) noexcept {
  const timespec timeout{.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000),
                         .tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000)};
  (void)ppoll(sockets_->polled.data(), sockets_->polled.size(), &timeout, nullptr);
}

std::optional<Error> SocketTransport::unreachable() const {
  const Sockets& s = *sockets_;
  if (s.stats.received > 0 || s.unreachable_errno == 0) return std::nullopt;
  return Error{Code::kUnavailable, why_unreachable(s.unreachable_errno, s.server, s.where)};
}
const SocketStats& SocketTransport::stats() const noexcept {
  return sockets_->stats;
}
uint32_t SocketTransport::receive_buffer_bytes() const noexcept {
  return sockets_->receive_buffer_bytes;
}
uint16_t SocketTransport::local_port(uint32_t flow) const noexcept {
  return sockets_->ends[flow].local_port;
}
SocketAddresses SocketTransport::addresses(uint32_t flow) const noexcept {
  return sockets_->ends[flow];
}
uint64_t SocketTransport::receive_drops() const noexcept {
  uint64_t drops = 0;
  for (const pollfd& entry : sockets_->polled) {
    std::array<uint32_t, SK_MEMINFO_VARS> info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(entry.fd, SOL_SOCKET, SO_MEMINFO, info.data(), &bytes) == 0 &&
        bytes == sizeof(info))
      drops += info[SK_MEMINFO_DROPS];
  }
  return drops;
}

}  // namespace itif::client
