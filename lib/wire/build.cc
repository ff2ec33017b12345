// Builds datagrams, for client and server.
#include <cstring>

#include "wire/datagram.h"

namespace itif::wire {
namespace {

bool is_single(Type type) noexcept {
  return type != Type::kRequest && type != Type::kResponse && type != Type::kResend;
}

}  // namespace

Header reply_header(const Header& to, Type type) noexcept {
  Header reply;
  reply.type = type;
  reply.tenant_id = to.tenant_id;
  reply.session = to.session;
  reply.request_id = to.request_id;
  if (type != Type::kPong && type != Type::kToken) {
    reply.auth = to.auth;
    reply.key_epoch = to.key_epoch;
  }
  return reply;
}

// Writes the last fields to the header in `datagram`, not to a copy: copying a header that has just
// been written field by field would wait for the stores.
bool seal(const Header& fields, const Key& key, std::span<std::byte> datagram) noexcept {
  const size_t head_bytes = header_size(fields.auth);
  if (datagram.size() < head_bytes || datagram.size() - head_bytes > kMaxFragmentBytes)
    return false;
  const std::span<std::byte> payload = datagram.subspan(head_bytes);
  std::memcpy(datagram.data(), &fields, kHeaderBytes);
  Header& header = *reinterpret_cast<Header*>(datagram.data());
  header.header_bytes = static_cast<uint8_t>(head_bytes);
  header.payload_bytes = static_cast<uint16_t>(payload.size());
  if (is_single(header.type)) header.total_bytes = static_cast<uint32_t>(payload.size());
  if (header.auth != Auth::kNone) {
    const auto tag = header.auth == Auth::kSealed ? encrypt(key, header, payload)
                                                  : compute_tag(key, header, payload);
    std::memcpy(datagram.data() + kHeaderBytes, tag.data(), kTagBytes);
  }
  return true;
}

size_t build(const Header& header, std::span<const std::byte> payload, const Key& key,
             std::span<std::byte> out) noexcept {
  const size_t head_bytes = header_size(header.auth);
  if (payload.size() > kMaxFragmentBytes || out.size() < head_bytes + payload.size()) return 0;
  if (!payload.empty()) std::memcpy(out.data() + head_bytes, payload.data(), payload.size());
  const size_t bytes = head_bytes + payload.size();
  return seal(header, key, out.first(bytes)) ? bytes : 0;
}

}  // namespace itif::wire
