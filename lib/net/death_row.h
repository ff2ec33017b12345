// Mbufs to be freed in bulk, because the fast path never frees inline. Owned by one worker, which
// flushes it once per poll.
#pragma once

#include <array>
#include <cstddef>

struct rte_mbuf;

namespace itif::net {

class DeathRow {
 public:
  static constexpr size_t kCapacity = 256;

  DeathRow() = default;
  DeathRow(const DeathRow&) = delete;
  DeathRow& operator=(const DeathRow&) = delete;
  ~DeathRow() { flush(); }

  void push(rte_mbuf* mbuf) noexcept {
    if (count_ == kCapacity) flush();
    mbufs_[count_++] = mbuf;
  }
  void flush() noexcept;
  size_t pending() const noexcept { return count_; }

 private:
  size_t count_ = 0;
  std::array<rte_mbuf*, kCapacity> mbufs_;
};

}  // namespace itif::net
