#include "device/host/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace itif::device {
namespace {

// Memory is allocated and freed in pieces. Meanwhile the kernel holds a lock of the process, which
// other threads may need, and it does not interrupt itself within a piece on some kernels.
constexpr size_t kPieceBytes = 2 * kHugePageBytes;

template <class Work>
void for_each_piece(std::byte* data, size_t bytes, const Work& work) {
  for (size_t at = 0; at < bytes; at += kPieceBytes)
    work(data + at, std::min(kPieceBytes, bytes - at));
}

// Allocates the pages of a piece. Returns 0 or errno: ENOMEM if a limit does not allow it.
int populate_piece(std::byte* data, size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  while (madvise(data, bytes, kPopulateWrite) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    // An older kernel: touch every page.
    for (size_t i = 0; i < bytes; i += kPageBytes) *reinterpret_cast<volatile char*>(data + i) = 0;
    return 0;
  }
  return 0;
}

}  // namespace

int populate_pages(std::byte* data, size_t bytes) {
  int error = 0;
  for_each_piece(data, bytes, [&](std::byte* at, size_t size) {
    if (error == 0) error = populate_piece(at, size);
  });
  return error;
}

void discard_pages(std::byte* data, size_t bytes) {
  for_each_piece(data, bytes,
                 [](std::byte* at, size_t size) { (void)madvise(at, size, MADV_DONTNEED); });
}

}  // namespace itif::device
