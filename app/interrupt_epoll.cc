// Keeps a memif client from ending itifd.
//
// EAL's interrupt thread adds every registered descriptor to its epoll set, and panics if epoll_ctl
// fails. net_memif closes the socket of a client that leaves before it was greeted, while the
// interrupt thread may be about to add it: epoll_ctl then fails with EBADF, and any program that
// may connect to the socket could end the appliance (DPDK 22.11, eal_interrupts.c,
// eal_intr_thread_main). The descriptor is about to be unregistered, so the failure is harmless.
//
// This epoll_ctl takes the place of libc's in the whole program, also for shared libraries, because
// a program's symbols come first. It differs only in this case.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace {

// Returns true in EAL's interrupt thread. Its name is "eal-intr-thread" or "dpdk-intr", by version.
bool is_interrupt_thread() noexcept {
  char name[16] = "";
  const int error = errno;
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  errno = error;
  const std::string_view text = name;
  return text.starts_with("eal-intr") || text.starts_with("dpdk-intr");
}

}  // namespace

extern "C" int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  const long result = ::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event);
  if (result < 0 && errno == EBADF && operation == EPOLL_CTL_ADD && is_interrupt_thread()) return 0;
  return static_cast<int>(result);
}
