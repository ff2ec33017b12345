// Builds valid datagrams for tests, any field of which can be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "wire/datagram.h"

namespace itif::wire::test {

using Bytes = std::vector<std::byte>;

inline Key test_key(uint8_t first = 0) {
  Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(first + i);
  return key;
}

inline Bytes pattern(size_t bytes) {
  Bytes out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + 3);
  return out;
}

// Returns a valid header of `type` for a message of one piece of `payload_bytes`.
inline Header sample_header(Type type, Auth auth, size_t payload_bytes) {
  Header header;
  header.type = type;
  header.auth = auth;
  header.tenant_id = 7;
  header.session = 0x01020304;
  header.request_id = 0x1122334455667788;
  header.total_bytes = static_cast<uint32_t>(payload_bytes);
  const bool has_sequence =
      type != Type::kHello && type != Type::kToken && type != Type::kPing && type != Type::kPong;
  if (has_sequence) header.sequence = 0x0102030405060708;
  if (type == Type::kRequest || type == Type::kResponse) {
    header.fragment_bytes = kDefaultFragmentBytes;
    header.budget_us = 25'000;
  }
  if (type == Type::kRequest) header.payload_kind = PayloadKind::kRaw;
  if (type == Type::kResend) {
    header.total_bytes = 4000;
    header.fragment_bytes = 1000;
  }
  if (type == Type::kStatus) header.status = StatusCode::kOverloaded;
  return header;
}

inline Bytes encode(const Header& header, const Bytes& payload = {}, const Key& key = test_key()) {
  Bytes out(header_size(header.auth) + payload.size());
  out.resize(build(header, payload, key, out));
  return out;
}

// Verifies and decrypts a datagram of test_key() in place.
inline bool opens(Bytes& datagram, const Key& key = test_key()) {
  Datagram parsed;
  return parse(datagram, parsed) == ParseError::kNone && open(key, parsed);
}

// Overwrites the field at `offset` of a built datagram.
template <class T>
Bytes with(Bytes datagram, size_t offset, T value) {
  std::memcpy(datagram.data() + offset, &value, sizeof value);
  return datagram;
}

}  // namespace itif::wire::test
