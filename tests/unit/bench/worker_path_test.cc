// A worker's path of datagrams and answers makes no system call, takes no lock and allocates no
// memory. A child process polls under a filter that ends it at any system call, with malloc and the
// locks of pthread replaced by functions that count.
//
// Freed memory is not counted: a worker frees the results of its group. Once in 100 ms the first
// worker reads the port's link, under a lock; the clock stands still for shorter than that.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ingest_port.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ITIF_SANITIZED 1
#else
#define ITIF_SANITIZED 0
#endif

namespace {

constexpr int kSystemCall = 91, kAllocates = 92, kLocks = 93;  // exit statuses of the child

bool counts = false;  // in poll()
uint64_t num_allocations = 0, num_locks = 0;

void count_allocation() {
  if (counts) ++num_allocations;
}

// Calls the function of this name that the next library has.
template <class... Arguments>
int lock_by_next(const char* name, int (*&next)(Arguments...), Arguments... arguments) {
  if (counts) ++num_locks;
  if (next == nullptr) next = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_NEXT, name));
  return next(arguments...);
}

}  // namespace

extern "C" {

#if !ITIF_SANITIZED
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) noexcept {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) noexcept {
  count_allocation();
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
#endif

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static int (*next)(pthread_mutex_t*) = nullptr;
  return lock_by_next("pthread_mutex_lock", next, mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static int (*next)(pthread_mutex_t*) = nullptr;
  return lock_by_next("pthread_mutex_trylock", next, mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static int (*next)(pthread_rwlock_t*) = nullptr;
  return lock_by_next("pthread_rwlock_rdlock", next, lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static int (*next)(pthread_rwlock_t*) = nullptr;
  return lock_by_next("pthread_rwlock_wrlock", next, lock);
}
int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  static int (*next)(pthread_spinlock_t*) = nullptr;
  return lock_by_next("pthread_spin_lock", next, lock);
}

}  // extern "C"

namespace itif::bench {
namespace {

// Writes "system call N" and ends the process.
void end_at_system_call(int, siginfo_t* info, void*) {
  char text[] = "system call    \n";
  for (int at = 14, number = info->si_syscall; at > 11; --at, number /= 10)
    text[at] = static_cast<char>('0' + number % 10);
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(kSystemCall);
}

void allow_no_system_calls() {
  struct sigaction action = {};
  action.sa_sigaction = end_at_system_call;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("seccomp");
    ::_exit(1);
  }
}

void poll(WorkerLoad& load, VirtualClock& clock) {
  clock.advance_ns(1000);
  counts = true;
  load.poll();
  counts = false;
}

void run_round(WorkerLoad& load, VirtualClock& clock) {
  load.build_round();
  while (load.put_burst() > 0) {
    while (!load.is_empty()) poll(load, clock);
    load.serve();
  }
  for (int i = 0; i < 64; ++i) {
    poll(load, clock);
    load.serve();
  }
}

// Ends the process: with 0 if the worker kept to the rules.
[[noreturn]] void poll_under_filter(WorkerLoad& load, VirtualClock& clock) {
  for (int i = 0; i < 4; ++i) run_round(load, clock);
  // The group's results come from memory that the process has already: malloc asks for no more.
  ::mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  std::vector<void*> blocks(1 << 16);
  for (void*& block : blocks) block = std::malloc(StubGroup::kResultBytes);
  for (void* block : blocks) std::free(block);
  num_allocations = num_locks = 0;
  allow_no_system_calls();
  for (int i = 0; i < 8; ++i) run_round(load, clock);
  ::_exit(num_allocations > 0 ? kAllocates : num_locks > 0 ? kLocks : 0);
}

class WorkerPath : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ITIF_SANITIZED) GTEST_SKIP() << "the sanitizers have an allocator of their own";
  }
  void expect_quiet(const LoadOptions& options) {
    RingPort& port = test::ingest_port();
    const auto frames =
        net::create_mempool({.name = "frames", .mbufs = options.num_mbufs(), .mbuf_bytes = 2048});
    ASSERT_TRUE(frames) << frames.error().message;
    VirtualClock clock;
    const auto load = WorkerLoad::make(port, frames->get(), options, clock);
    ASSERT_TRUE(load) << load.error().message;
    EXPECT_EXIT(poll_under_filter(**load, clock), ::testing::ExitedWithCode(0), "");
    const Status finished = (*load)->finish();
    EXPECT_TRUE(finished) << finished.error().message;
  }
};

TEST_F(WorkerPath, RequestsAndAnswersAreQuiet) {
  for (const wire::Auth auth : {wire::Auth::kNone, wire::Auth::kHeader, wire::Auth::kFull})
    expect_quiet({.auth = auth, .responds = true});
}

TEST_F(WorkerPath, FragmentsAreQuiet) {
  expect_quiet({.payload_bytes = 50 * 1024, .fragment_bytes = 1024, .num_open = 20});
  expect_quiet({.payload_bytes = 4 * 1024, .fragment_bytes = 1024, .num_tenants = 50});
}

TEST_F(WorkerPath, RefusalsAndDropsAreQuiet) {
  for (const Fault fault : {Fault::kBadMagic, Fault::kBadTag, Fault::kOverloaded})
    expect_quiet({.fault = fault});
  expect_quiet({.payload_bytes = 2048, .fragment_bytes = 1024, .fault = Fault::kDuplicate});
}

// Two workers share a queue: what one passes on and the other sends through it.
TEST_F(WorkerPath, SpreadingIsQuiet) {
  expect_quiet({.responds = true, .num_clients = 64, .num_workers = 2});
  expect_quiet({.fault = Fault::kOverloaded, .num_clients = 64, .num_workers = 3});
  expect_quiet({.payload_bytes = 50 * 1024,
                .fragment_bytes = 1024,
                .num_open = 20,
                .num_clients = 16,
                .num_workers = 2});
}

// The child's means notice what they are for.
TEST_F(WorkerPath, CallsAllocationsAndLocksAreNoticed) {
  EXPECT_EXIT(
      {
        allow_no_system_calls();
        (void)::syscall(__NR_getppid);
        ::_exit(0);
      },
      ::testing::ExitedWithCode(kSystemCall), "system call 110");
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  counts = true;
  const uint64_t before = num_locks;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  EXPECT_EQ(num_locks, before + 1);
#if !ITIF_SANITIZED
  const uint64_t allocations = num_allocations;
  // Through pointers, because the compiler may leave out a pair of new and delete.
  void* (*volatile allocate)(size_t) = ::operator new;
  void (*volatile release)(void*) = ::operator delete;
  release(allocate(24));
  EXPECT_EQ(num_allocations, allocations + 1);
#endif
  counts = false;
}

}  // namespace
}  // namespace itif::bench
