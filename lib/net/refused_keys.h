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

  void add(const HashedKey& key, uint64_t now_ns) noexcept {
    entry(key) = {key, now_ns};
    newest_ns_ = now_ns;
  }
  bool contains(const HashedKey& key, uint64_t now_ns) noexcept {
    if (is_empty(now_ns)) return false;
    const Entry& found = entry(key);
    return found.key == key && is_remembered(found.refused_ns, now_ns);
  }
  // Forgets a refusal after the request has been accepted.
  void erase(const HashedKey& key, uint64_t now_ns) noexcept {
    if (is_empty(now_ns)) return;
    Entry& found = entry(key);
    if (found.key == key) found.refused_ns = 0;
  }
  // Begins to load the memory that the functions above need. Inline, because GCC 12 removes calls
  // of functions that only prefetch.
  [[gnu::always_inline]] void prefetch(const HashedKey& key, uint64_t now_ns) const noexcept {
    if (!is_empty(now_ns)) __builtin_prefetch(&entries_[key.hash % kEntries], 1);
  }

 private:
  static constexpr size_t kEntries = 4096;
  struct Entry {
    HashedKey key;
    uint64_t refused_ns = 0;
  };
  Entry& entry(const HashedKey& key) noexcept { return entries_[key.hash % kEntries]; }
  bool is_remembered(uint64_t refused_ns, uint64_t now_ns) const noexcept {
    return refused_ns != 0 && now_ns - refused_ns < memory_ns_;
  }
  // Returns true if all refusals are forgotten. The callers then read no entry: the table is larger
  // than a first-level cache.
  bool is_empty(uint64_t now_ns) const noexcept { return !is_remembered(newest_ns_, now_ns); }

  uint64_t memory_ns_;
  uint64_t newest_ns_ = 0;  // of the last refusal
  std::array<Entry, kEntries> entries_{};
};

}  // namespace itif::net
