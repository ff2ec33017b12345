#include "text/charsmap.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "text/proto_fields.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

// Field numbers of ModelProto and NormalizerSpec.
constexpr uint32_t kNormalizerSpec = 3;
constexpr uint32_t kDenormalizerSpec = 5;
constexpr uint32_t kPrecompiledCharsmap = 2;

// A trie of u32 units. Byte b at a node leads to unit `node ^ b`, if b is the label of that unit.
// The unit's offset gives the next node. If the unit has a leaf, the unit at the next node holds
// the value.
class DoubleArray {
 public:
  explicit DoubleArray(std::string_view bytes) : units_(bytes.size() / sizeof(uint32_t)) {
    if (!units_.empty())
      std::memcpy(units_.data(), bytes.data(), units_.size() * sizeof(uint32_t));
  }

  // Returns true if the trie has this key. REQUIRES: stays_inside().
  bool contains(std::string_view key) const {
    uint32_t node = offset(units_[0]);
    bool has_leaf = false;
    for (const char letter : key) {
      const auto byte = static_cast<uint8_t>(letter);
      const uint32_t at = node ^ byte;
      if ((units_[at] & kLabel) != byte) return false;
      has_leaf = (units_[at] & kHasLeaf) != 0;
      node = at ^ offset(units_[at]);
    }
    return has_leaf;
  }

  // Returns true if every lookup of a byte at every reachable node stays in the array, and all
  // values are at most `max_value`.
  bool stays_inside(size_t max_value) const {
    if (units_.empty()) return false;
    std::vector<bool> seen(units_.size());
    std::vector<uint32_t> nodes{offset(units_[0])};
    while (!nodes.empty()) {
      const uint32_t node = nodes.back();
      nodes.pop_back();
      if ((node | 0xff) >= units_.size()) return false;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const uint32_t at = node ^ byte;
        const uint32_t unit = units_[at];
        if ((unit & kLabel) != byte || seen[at]) continue;
        seen[at] = true;
        const uint32_t next = at ^ offset(unit);
        if ((unit & kHasLeaf) != 0 && (next >= units_.size() || value(units_[next]) > max_value))
          return false;
        nodes.push_back(next);
      }
    }
    return true;
  }

 private:
  static constexpr uint32_t kLabel = 1u << 31 | 0xff;
  static constexpr uint32_t kHasLeaf = 1u << 8;
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  static uint32_t value(uint32_t unit) { return unit & ((1u << 31) - 1); }

  std::vector<uint32_t> units_;
};

// Format: size of the trie in bytes (u32); the trie; zero-terminated strings, indexed by the trie's
// values.
bool is_charsmap(std::string_view bytes) {
  if (bytes.empty()) return true;
  uint32_t trie_bytes = 0;
  if (bytes.size() <= sizeof trie_bytes) return false;
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes >= bytes.size() || trie_bytes % sizeof(uint32_t) != 0) return false;
  const std::string_view strings = bytes.substr(trie_bytes);
  return strings.back() == '\0' &&
         DoubleArray(bytes.substr(0, trie_bytes)).stays_inside(strings.size() - 1);
}

}  // namespace

Status check_charsmaps(std::string_view model, const std::string& origin) {
  const auto corrupt = [&](const char* what) {
    return fail(Code::kCorrupt, fmt::format("{}: not a SentencePiece model: {}", origin, what));
  };
  for (ProtoField field; !model.empty();) {
    if (!take_field(model, field)) return corrupt("its fields are damaged");
    if (!field.is_bytes || (field.number != kNormalizerSpec && field.number != kDenormalizerSpec))
      continue;
    std::string_view spec = field.bytes;
    for (ProtoField inner; !spec.empty();) {
      if (!take_field(spec, inner)) return corrupt("its normaliser's fields are damaged");
      if (inner.is_bytes && inner.number == kPrecompiledCharsmap && !is_charsmap(inner.bytes))
        return corrupt("its normaliser's table has an offset outside itself");
    }
  }
  return {};
}

bool charsmap_replaces(std::string_view model, uint32_t code_point) {
  char bytes[kMaxUtf8Bytes];
  const std::string_view key(bytes, put_code_point(code_point, bytes));
  for (ProtoField field; !model.empty() && take_field(model, field);) {
    if (!field.is_bytes || field.number != kNormalizerSpec) continue;
    std::string_view spec = field.bytes;
    for (ProtoField inner; !spec.empty() && take_field(spec, inner);) {
      if (!inner.is_bytes || inner.number != kPrecompiledCharsmap || inner.bytes.empty()) continue;
      uint32_t trie_bytes = 0;
      std::memcpy(&trie_bytes, inner.bytes.data(), sizeof trie_bytes);
      return DoubleArray(inner.bytes.substr(sizeof trie_bytes, trie_bytes)).contains(key);
    }
  }
  return false;
}

}  // namespace itif::text
