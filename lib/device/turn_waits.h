// A stream that computes in turns with others (device/host/turns.h) also implements this interface.
#pragma once

#include <cstdint>

namespace itif::device {

class TurnWaits {
 public:
  virtual ~TurnWaits() = default;
  // Returns how long its launches have waited for their turn so far. Any thread.
  virtual uint64_t turn_wait_ns() const noexcept = 0;
};

}  // namespace itif::device
