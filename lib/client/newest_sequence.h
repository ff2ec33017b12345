// The newest sequence numbers of the server's datagrams about one request. They tell what the
// server sends now from what somebody has captured and sends again.
//
// A worker of the server counts up from a random number; after 2^64 - 1 comes 0. A restart and a
// handover begin another count, and the old process may still answer meanwhile. So two counts are
// followed; a number that is far from both belongs to a third, which replaces the idle one.
//
// A window of numbers (RFC 6479), as the server has for its clients, would accept late datagrams,
// too. Clients need none: a later `resend`, `busy` or status replaces the earlier ones, and pieces
// of a response are told apart by their offsets.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace itif::client {

class NewestSequence {
 public:
  // Returns true if `number` is above all that were seen of its count.
  bool advance(uint64_t number) noexcept {
    for (uint32_t i = 0; i < num_counts_; ++i) {
      if (newest_[i] - number < kReach) return false;
      if (number - newest_[i] >= kReach) continue;
      newest_[i] = number;
      if (i > 0) std::swap(newest_[0], newest_[1]);
      return true;
    }
    newest_[1] = newest_[0];
    newest_[0] = number;
    if (num_counts_ < newest_.size()) ++num_counts_;
    return true;
  }

 private:
  // No server sends as many datagrams while a request is open.
  static constexpr uint64_t kReach = uint64_t{1} << 40;

  std::array<uint64_t, 2> newest_{};  // of each count; the one that was used last comes first
  uint32_t num_counts_ = 0;
};

}  // namespace itif::client
