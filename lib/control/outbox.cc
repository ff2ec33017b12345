#include "control/outbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace itif::control {

Result<std::unique_ptr<Outbox>> Outbox::make() {
  Descriptor fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd)
    return fail(Code::kResourceExhausted, "cannot make an eventfd: " + errno_text(errno) +
                                              ": raise the limit of open files (ulimit -n)");
  return std::make_unique<Outbox>(std::move(fd));
}

void Outbox::push(Outgoing outgoing) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(outgoing));
  }
  wake();
}

void Outbox::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  wake();
}

void Outbox::wake() {
  const uint64_t one = 1;
  // write() fails only if the counter would overflow; then the descriptor is already readable.
  [[maybe_unused]] const ssize_t written = ::write(event_fd_.get(), &one, sizeof one);
}

// Resets the descriptor first. A later push() or close() makes it readable again; the result has
// the earlier ones.
Outbox::Taken Outbox::take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event_fd_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return {.messages = std::exchange(waiting_, {}), .is_last = is_closed_};
}

}  // namespace itif::control
