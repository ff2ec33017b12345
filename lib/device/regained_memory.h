// A device whose memory other processes use, too, also implements this interface. Its limit is the
// memory that was free when it was opened. Once the others end, it can have more.
#pragma once

#include <cstddef>

namespace itif::device {

class RegainedMemory {
 public:
  virtual ~RegainedMemory() = default;
  // Measures the free memory again. Raises the limit of weights and workspaces by what other
  // processes had freed at the previous call and have not taken since, to
  // DeviceOptions::memory_limit_bytes at most. Never lowers it. Call it every second: memory that
  // was freed in between counts in the next call. Takes some milliseconds, and waits for no launch.
  // Returns the bytes by which the limit has risen. Any thread.
  virtual size_t regain_memory() = 0;
  // Returns the limit: DeviceInfo::memory_bytes plus all that was regained. Any thread.
  virtual size_t memory_bytes() const = 0;
};

}  // namespace itif::device
