#include "device/stream/async_stream.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "kernels/spans.h"

namespace itif::device {
namespace {

// Memory for a batch's launches: 24 layers of 7 launches over 256 ranges take half of it.
constexpr size_t kWorkBytes = 1 << 20;
constexpr size_t kWorkLaunches = 1024;

struct InputsRead {
  std::atomic<Stream::Event>* num_read;
  Stream::Event event;
  const std::function<void()>* on_done;
};

struct CopyToHost {
  const void* source;
  size_t bytes;
  void* target;
};

}  // namespace

AsyncStream::Work::Work() : memory_(new std::byte[kWorkBytes]), arena_(memory_.get(), kWorkBytes) {
  launches.reserve(kWorkLaunches);
}

void AsyncStream::Work::clear() {
  launches.clear();
  arena_.release();
}

template <class T>
const T* AsyncStream::Work::keep(T value) {
  static_assert(std::is_trivially_destructible_v<T>);
  kernels::for_each_span(value, [this](auto& span) { span = keep_all(span); });
  return new (arena_.allocate(sizeof(T), alignof(T))) T(value);
}

template <class T>
std::span<const T> AsyncStream::Work::keep_all(std::span<const T> values) {
  if (values.empty()) return {};
  T* kept = static_cast<T*>(arena_.allocate(values.size_bytes(), alignof(T)));
  std::uninitialized_copy(values.begin(), values.end(), kept);
  for (T& value : std::span(kept, values.size()))
    kernels::for_each_span(value, [this](auto& span) { span = keep_all(span); });
  return {kept, values.size()};
}

Result<std::unique_ptr<Stream>> AsyncStream::make(std::unique_ptr<Stream> stream,
                                                  const StreamOptions& options) {
  CHECK(options.clock != nullptr);
  std::unique_ptr<AsyncStream> queued(new AsyncStream(std::move(stream), options));
  try {
    queued->thread_ = std::thread([queued = queued.get()] { queued->run(); });
  } catch (const std::system_error& error) {
    return fail(Code::kResourceExhausted,
                std::string("cannot start a stream's thread: ") + error.what());
  }
  return queued;
}

AsyncStream::AsyncStream(std::unique_ptr<Stream> stream, const StreamOptions& options)
    : stream_(std::move(stream)),
      turn_taking_(dynamic_cast<TurnTaking*>(stream_.get())),
      clock_(*options.clock),
      on_done_(options.on_done) {}

AsyncStream::~AsyncStream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  handed_.notify_one();
  thread_.join();
}

void AsyncStream::run() noexcept {
  pthread_setname_np(pthread_self(), "itif-stream");
  stream_->attach_thread();
  for (std::unique_lock lock(mutex_);;) {
    const Event event = num_done_.load(std::memory_order_relaxed);
    handed_.wait(lock, [&] { return num_handed_ > event || stopping_; });
    if (num_handed_ == event) return;
    lock.unlock();
    run(of(event));
    lock.lock();
    num_done_.store(event + 1, std::memory_order_release);
    came_.notify_one();
    if (on_done_) {
      lock.unlock();
      on_done_();
      lock.lock();
    }
  }
}

void AsyncStream::run(Work& work) noexcept {
  const uint64_t start_ns = clock_.now_ns();
  for (const Launch& launch : work.launches) launch.run(*stream_, launch.args);
  work.completion = {.status = stream_->synchronize(), .device_ns = clock_.now_ns() - start_ns};
}

Stream::Event AsyncStream::record() {
  CHECK(next_event_ - next_wait_ < kMaxPending);
  {
    const std::lock_guard lock(mutex_);
    num_handed_ = ++next_event_;
  }
  handed_.notify_one();
  return next_event_ - 1;
}

bool AsyncStream::is_done(Event event) const noexcept {
  return num_done_.load(std::memory_order_acquire) > event;
}

bool AsyncStream::inputs_read(Event event) const noexcept {
  return num_read_.load(std::memory_order_acquire) > event || is_done(event);
}

Stream::Completion AsyncStream::wait(Event event) {
  CHECK(event == next_wait_ && event < next_event_);
  {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return is_done(event); });
  }
  ++next_wait_;
  Work& work = of(event);
  work.clear();
  return std::move(work.completion);
}

Status AsyncStream::synchronize() {
  CHECK(next_event_ == next_wait_);
  return wait(record()).status;
}

void AsyncStream::dispatch(kernels::Operator op) {
  Work& work = of(next_event_);
  std::visit(
      [&]<class Args>(const Args* args) {
        work.launches.push_back({[](Stream& stream, const void* kept) {
                                   stream.launch(*static_cast<const Args*>(kept));
                                 },
                                 work.keep(*args)});
      },
      op);
}

void AsyncStream::copy_to_host(const void* source, size_t bytes, void* target) {
  Work& work = of(next_event_);
  work.launches.push_back({[](Stream& stream, const void* kept) {
                             const auto& copy = *static_cast<const CopyToHost*>(kept);
                             stream.copy_to_host(copy.source, copy.bytes, copy.target);
                           },
                           work.keep(CopyToHost{source, bytes, target})});
}

void AsyncStream::end_inputs() {
  Work& work = of(next_event_);
  work.launches.push_back({[](Stream&, const void* kept) {
                             const auto& inputs = *static_cast<const InputsRead*>(kept);
                             inputs.num_read->store(inputs.event + 1, std::memory_order_release);
                             if (*inputs.on_done) (*inputs.on_done)();
                           },
                           work.keep(InputsRead{&num_read_, next_event_, &on_done_})});
}

}  // namespace itif::device
