// Remembers recently refused requests, so that their further pieces do not start them again.
// Otherwise the tail of a refused request would take quota and contexts from complete requests.
//
// A direct-mapped table with a short memory; a newer refusal replaces an older one. A forgotten
// refusal costs a context for a while and is otherwise harmless. One owner thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "net/message_key.h"

namespace itif::net {

class RefusedKeys {
 public:
  // `memory_ns`: how long a refusal is remembered.
  explicit RefusedKeys(uint64_t memory_ns) : memory_ns_(memory_ns) {}

  void add(const HashedKey& key, uint64_t now_ns) noexcept { entry(key) = {key, now_ns}; }
  bool contains(const HashedKey& key, uint64_t now_ns) noexcept {
    const Entry& found = entry(key);
    return found.key == key && found.refused_ns != 0 && now_ns - found.refused_ns < memory_ns_;
  }
  // Forgets a refusal after the request has been accepted.
  void erase(const HashedKey& key) noexcept {
    Entry& found = entry(key);
    if (found.key == key) found.refused_ns = 0;
  }

 private:
  static constexpr size_t kEntries = 4096;
  struct Entry {
    HashedKey key;
    uint64_t refused_ns = 0;
  };
  Entry& entry(const HashedKey& key) noexcept { return entries_[key.hash % kEntries]; }

  uint64_t memory_ns_;
  std::array<Entry, kEntries> entries_{};
};

}  // namespace itif::net
