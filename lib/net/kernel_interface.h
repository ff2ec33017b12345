// The link of a kernel interface under a DPDK port. DPDK's drivers for AF_PACKET and AF_XDP report
// a link that is always up.
#pragma once

#include <cstdint>

namespace itif::net {

class KernelInterface {
 public:
  enum class Link : uint8_t {
    kUp,
    kDown,     // by an administrator, or without a carrier
    kRemoved,  // for ever: a new interface of the same name is another one
    kUnknown,  // the kernel does not say
  };

  // No interface: its link is unknown.
  KernelInterface() = default;
  // `index`: as if_nametoindex() gives it.
  explicit KernelInterface(uint32_t index) noexcept;
  KernelInterface(KernelInterface&& other) noexcept;
  KernelInterface& operator=(KernelInterface&& other) noexcept;
  ~KernelInterface();

  // Asks the kernel: two system calls. Any thread.
  Link link() const noexcept;

 private:
  uint32_t index_ = 0;
  int socket_ = -1;  // in the interface's network namespace
};

}  // namespace itif::net
