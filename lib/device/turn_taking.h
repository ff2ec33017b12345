// A stream that computes in turns with others (device/host/turns.h) also implements this interface.
#pragma once

#include <cstdint>

namespace itif::device {

class TurnTaking {
 public:
  virtual ~TurnTaking() = default;
  // Returns how long its launches have waited for their turn so far. Any thread.
  virtual uint64_t turn_wait_ns() const noexcept = 0;
  // Returns how long the streams of the foreground have computed so far. Any thread.
  virtual uint64_t foreground_ns() const noexcept = 0;
  // Moves the stream to the background, where it yields to streams of the foreground, or back. A
  // new stream is in the foreground. The stream's thread, with no launch in flight.
  virtual void set_background(bool is_background) noexcept = 0;
};

}  // namespace itif::device
