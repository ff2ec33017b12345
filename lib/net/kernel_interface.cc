#include "net/kernel_interface.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace itif::net {

KernelInterface::KernelInterface(uint32_t index) noexcept
    : index_(index), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

KernelInterface::KernelInterface(KernelInterface&& other) noexcept
    : index_(other.index_), socket_(std::exchange(other.socket_, -1)) {}

KernelInterface& KernelInterface::operator=(KernelInterface&& other) noexcept {
  std::swap(index_, other.index_);
  std::swap(socket_, other.socket_);
  return *this;
}

KernelInterface::~KernelInterface() {
  if (socket_ >= 0) ::close(socket_);
}

KernelInterface::Link KernelInterface::link() const noexcept {
  if (socket_ < 0) return Link::kUnknown;
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(index_);
  if (::ioctl(socket_, SIOCGIFNAME, &request) != 0)
    return errno == ENODEV ? Link::kRemoved : Link::kUnknown;
  if (::ioctl(socket_, SIOCGIFFLAGS, &request) != 0)
    return errno == ENODEV ? Link::kRemoved : Link::kUnknown;
  const bool is_up = (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
  return is_up ? Link::kUp : Link::kDown;
}

}  // namespace itif::net
