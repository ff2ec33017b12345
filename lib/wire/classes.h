// The payload of a result of kind kClasses, best class first:
//
//   payload = entry*                header.aux counts the entries
//   entry   = u32 index, f32 probability, u32 name_bytes, name (UTF-8), 0 to 3 bytes of zero
//
// The zero bytes keep every entry 4-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace itif::wire {

constexpr uint32_t kMaxClassNameBytes = 1024;

struct ClassEntry {
  uint32_t index = 0;
  float probability = 0;
  std::string_view name;  // borrowed
};

// Returns the bytes that encode_classes() writes.
size_t encoded_classes_bytes(std::span<const ClassEntry> classes) noexcept;

// Cuts names to kMaxClassNameBytes, at a character boundary. Returns the bytes written; 0 if `out`
// is too small.
size_t encode_classes(std::span<const ClassEntry> classes, std::span<std::byte> out) noexcept;

// Reads entries one by one; safe on any payload.
//   ClassReader reader(payload);
//   for (ClassEntry entry; reader.next(entry);) …
//   if (!reader.ok()) …
class ClassReader {
 public:
  explicit ClassReader(std::span<const std::byte> payload) noexcept : rest_(payload) {}
  // Returns false at the end, and at the first truncated or malformed entry (then ok() is false).
  bool next(ClassEntry& out) noexcept;
  bool ok() const noexcept { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace itif::wire
