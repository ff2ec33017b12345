// Walks the fields of a protocol buffer without its schema: SentencePiece models.
#pragma once

#include <cstdint>
#include <string_view>

namespace itif::text {

// `bytes` is the content of a length-delimited field, or of one of four bytes.
struct ProtoField {
  uint32_t number = 0;
  bool is_bytes = false, is_fixed32 = false;
  std::string_view bytes;
};

inline bool take_varint(std::string_view& rest, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

inline bool take_bytes(std::string_view& rest, size_t size, std::string_view& bytes) {
  if (rest.size() < size) return false;
  bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

// Returns false if no valid field follows. Groups, which the format has deprecated, are invalid
// here.
inline bool take_field(std::string_view& rest, ProtoField& field) {
  uint64_t tag = 0, value = 0;
  if (!take_varint(rest, tag) || tag > UINT32_MAX) return false;
  field = {.number = static_cast<uint32_t>(tag >> 3),
           .is_bytes = (tag & 7) == 2,
           .is_fixed32 = (tag & 7) == 5,
           .bytes = {}};
  switch (tag & 7) {
    case 0: return take_varint(rest, value);
    case 1: return take_bytes(rest, 8, field.bytes);
    case 2:
      return take_varint(rest, value) && value <= rest.size() &&
             take_bytes(rest, value, field.bytes);
    case 5: return take_bytes(rest, 4, field.bytes);
    default: return false;
  }
}

}  // namespace itif::text
