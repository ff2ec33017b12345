// Keeps free memory in the calling thread's arena of malloc, so that small allocations do not grow
// it.
//
// To grow an arena of another thread than the main one, glibc calls mprotect for each few pages.
// The call waits for the lock of the process's memory map, which threads that map and unmap large
// buffers hold for milliseconds: loaders of models, at the lowest priority.
#pragma once

#include <cstddef>
#include <memory>

namespace itif {

class HeapReserve {
 public:
  // Reserves and touches about `bytes`. They stay in the arena until the object ends, also if the
  // arena's memory is trimmed.
  explicit HeapReserve(size_t bytes);

 private:
  std::unique_ptr<std::byte[]> last_;  // keeps what is free before it from being trimmed
};

}  // namespace itif
