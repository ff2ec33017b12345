#include "wire/classes.h"

#include <cstring>

#include "wire/payload.h"

namespace itif::wire {
namespace {

constexpr size_t kEntryHeadBytes = 12;

constexpr size_t padded(size_t bytes) {
  return (bytes + 3) & ~static_cast<size_t>(3);
}

size_t name_bytes(const ClassEntry& entry) noexcept {
  if (entry.name.size() <= kMaxClassNameBytes) return entry.name.size();
  size_t bytes = kMaxClassNameBytes;
  while (bytes > 0 && (static_cast<unsigned char>(entry.name[bytes]) & 0xc0) == 0x80) --bytes;
  return bytes;
}

}  // namespace

size_t encoded_classes_bytes(std::span<const ClassEntry> classes) noexcept {
  size_t bytes = 0;
  for (const ClassEntry& entry : classes) bytes += kEntryHeadBytes + padded(name_bytes(entry));
  return bytes;
}

size_t encode_classes(std::span<const ClassEntry> classes, std::span<std::byte> out) noexcept {
  const size_t bytes = encoded_classes_bytes(classes);
  if (out.size() < bytes) return 0;
  std::byte* p = out.data();
  for (const ClassEntry& entry : classes) {
    const size_t name = name_bytes(entry);
    const auto name_u32 = static_cast<uint32_t>(name);
    std::memcpy(p, &entry.index, 4);
    std::memcpy(p + 4, &entry.probability, 4);
    std::memcpy(p + 8, &name_u32, 4);
    p += kEntryHeadBytes;
    if (name > 0) std::memcpy(p, entry.name.data(), name);
    std::memset(p + name, 0, padded(name) - name);
    p += padded(name);
  }
  return bytes;
}

bool ClassReader::next(ClassEntry& out) noexcept {
  if (rest_.empty() || !ok_) return false;
  ok_ = false;
  if (rest_.size() < kEntryHeadBytes) return false;
  uint32_t name = 0;
  std::memcpy(&out.index, rest_.data(), 4);
  std::memcpy(&out.probability, rest_.data() + 4, 4);
  std::memcpy(&name, rest_.data() + 8, 4);
  if (name > kMaxClassNameBytes || rest_.size() - kEntryHeadBytes < padded(name)) return false;
  out.name = {reinterpret_cast<const char*>(rest_.data()) + kEntryHeadBytes, name};
  for (size_t i = kEntryHeadBytes + name; i < kEntryHeadBytes + padded(name); ++i)
    if (rest_[i] != std::byte{0}) return false;
  if (!utf8_valid(out.name)) return false;
  rest_ = rest_.subspan(kEntryHeadBytes + padded(name));
  ok_ = true;
  return true;
}

}  // namespace itif::wire
