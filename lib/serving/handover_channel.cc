#include "serving/handover_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace itif::serving {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr size_t kMaxPacketBytes = 1 << 15;  // far below a socket buffer, which bounds packets
constexpr char kPart = '+', kLastPart = '.';
constexpr int kFullPollMs = 20;

json to_json(const InheritedPort& port) {
  const net::PortInfo& info = port.info;
  return {{"device", port.device},
          {"num_queues", port.num_queues},
          {"mtu", port.mtu},
          {"info",
           {{"device", info.device},
            {"driver", info.driver},
            {"mac", info.mac},
            {"num_queues", info.num_queues},
            {"mtu", info.mtu},
            {"ipv4_checksum", info.tx_offloads.ipv4_checksum},
            {"udp_checksum", info.tx_offloads.udp_checksum},
            {"rss", info.rss},
            {"rx_checksums", info.rx_checksums},
            {"partial_checksums", info.partial_checksums},
            {"socket", info.socket}}}};
}

// Throws nlohmann's exceptions.
InheritedPort port_from(const json& message) {
  InheritedPort port;
  message.at("device").get_to(port.device);
  message.at("num_queues").get_to(port.num_queues);
  message.at("mtu").get_to(port.mtu);
  const json& from = message.at("info");
  net::PortInfo& info = port.info;
  from.at("device").get_to(info.device);
  from.at("driver").get_to(info.driver);
  from.at("mac").get_to(info.mac);
  from.at("num_queues").get_to(info.num_queues);
  from.at("mtu").get_to(info.mtu);
  from.at("ipv4_checksum").get_to(info.tx_offloads.ipv4_checksum);
  from.at("udp_checksum").get_to(info.tx_offloads.udp_checksum);
  from.at("rss").get_to(info.rss);
  from.at("rx_checksums").get_to(info.rx_checksums);
  from.at("partial_checksums").get_to(info.partial_checksums);
  from.at("socket").get_to(info.socket);
  return port;
}

}  // namespace

json to_json(const Inheritance& inheritance) {
  json ports = json::array();
  for (const InheritedPort& port : inheritance.ports) ports.push_back(to_json(port));
  return {{"version", kVersion},
          {"file_prefix", inheritance.file_prefix},
          {"has_hugepages", inheritance.has_hugepages},
          {"failed_tenants", inheritance.failed_tenants},
          {"failed_canaries", inheritance.failed_canaries},
          {"ports", std::move(ports)},
          {"device", inheritance.device}};
}

Result<Inheritance> inheritance_from(const json& message) try {
  if (message.at("version").get<int>() != kVersion)
    return fail(
        Code::kUnsupported,
        fmt::format("the other process speaks version {} of the handover, this one {}: stop "
                    "it and start this one",
                    message.at("version").get<int>(), kVersion));
  Inheritance inheritance;
  message.at("file_prefix").get_to(inheritance.file_prefix);
  message.at("has_hugepages").get_to(inheritance.has_hugepages);
  message.at("failed_tenants").get_to(inheritance.failed_tenants);
  // Earlier versions list these tenants among failed_tenants.
  inheritance.failed_canaries = message.value("failed_canaries", std::vector<uint32_t>());
  const json& ports = message.at("ports");
  if (!ports.is_array()) return fail(Code::kInvalidArgument, "the handover's ports are no array");
  for (const json& port : ports) inheritance.ports.push_back(port_from(port));
  inheritance.device = message.value("device", "");  // earlier versions do not send it
  return inheritance;
} catch (const json::exception& e) {
  return fail(Code::kInvalidArgument,
              fmt::format("the other process's handover cannot be read: {}", e.what()));
}

bool HandoverChannel::send_packet(std::string_view bytes, const std::function<bool()>& gives_up) {
  for (;;) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent == static_cast<ssize_t>(bytes.size());
    if (errno != EAGAIN && errno != EINTR) return false;
    if (gives_up && gives_up()) return false;
    pollfd waiting{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&waiting, 1, kFullPollMs);
  }
}

bool HandoverChannel::send(const std::string& step, json fields,
                           const std::function<bool()>& gives_up) {
  fields["step"] = step;
  const std::string bytes = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  if (bytes.size() <= kMaxPacketBytes) return send_packet(bytes, gives_up);
  for (std::string_view left = bytes; !left.empty();) {
    const std::string_view part = left.substr(0, kMaxPacketBytes - 1);
    left.remove_prefix(part.size());
    const char kind = left.empty() ? kLastPart : kPart;
    if (!send_packet(kind + std::string(part), gives_up)) return false;
  }
  return true;
}

std::string HandoverChannel::Received::text(const char* field, const char* otherwise) const {
  const auto found = message.is_object() ? message.find(field) : message.end();
  return found != message.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

HandoverChannel::Received HandoverChannel::receive(int timeout_ms) {
  std::string bytes;
  do {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, timeout_ms) <= 0) return {};
    char first;
    // Returns the length of the whole packet. The socket's buffer bounds it.
    ssize_t got = ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (got > 0) {
      bytes.resize(static_cast<size_t>(got));
      got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got <= 0) return {.message = {}, .ended = true};
    if (bytes[0] == kPart || bytes[0] == kLastPart) add_part(std::string_view(bytes).substr(1));
  } while (bytes[0] == kPart);
  size_t message_bytes = bytes.size();
  if (bytes[0] == kLastPart) {
    bytes = std::exchange(parts_, {});
    message_bytes = std::exchange(parts_bytes_, 0);
  }
  if (message_bytes > kMaxMessageBytes) return {.message = {}, .too_long_bytes = message_bytes};
  json message = json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return {};
  return {.message = std::move(message)};
}

void HandoverChannel::add_part(std::string_view part) {
  parts_bytes_ += part.size();
  if (parts_bytes_ <= kMaxMessageBytes)
    parts_ += part;
  else
    parts_ = {};
}

Error too_long(const HandoverChannel::Received& received, std::string_view expected) {
  return {Code::kInvalidArgument,
          fmt::format(
              "the other process's message '{}' has {} bytes, and this process takes {} at most: "
              "restart itifd instead",
              expected, received.too_long_bytes, HandoverChannel::kMaxMessageBytes)};
}

bool HandoverChannel::has_ended() const {
  char byte;
  return ::recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace itif::serving
