// Runs the launches of another stream asynchronously, on its own thread. Launches are kept until
// record() hands them to that thread; the caller prepares the next batch meanwhile. This overlaps
// batches on the CPU. A GPU stream does not need it.
//
// The stream copies the arguments and everything that their spans refer to, since spans are "read
// before the call returns" (kernels/args.h). Memory behind device pointers must stay valid until
// the event is done, and packets until their bytes have been read.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "device/turn_taking.h"

namespace itif::device {

class AsyncStream final : public Stream, public TurnTaking {
 public:
  // Starts the thread that runs the launches of `stream`, which is synchronous. REQUIRES:
  // options.clock. Errors: kResourceExhausted.
  static Result<std::unique_ptr<Stream>> make(std::unique_ptr<Stream> stream,
                                              const StreamOptions& options);
  // Waits for recorded launches; the others never run.
  ~AsyncStream() override;

  void attach_thread() override { stream_->attach_thread(); }
  void sleep_early(bool early) noexcept override { stream_->sleep_early(early); }
  void set_percent(double percent) noexcept override { stream_->set_percent(percent); }
  uint64_t turn_wait_ns() const noexcept override {
    return turn_taking_ == nullptr ? 0 : turn_taking_->turn_wait_ns();
  }
  uint64_t foreground_ns() const noexcept override {
    return turn_taking_ == nullptr ? 0 : turn_taking_->foreground_ns();
  }
  void set_background(bool is_background) noexcept override {
    if (turn_taking_ != nullptr) turn_taking_->set_background(is_background);
  }
  void dispatch(kernels::Operator op) override;
  void copy_to_host(const void* source, size_t bytes, void* target) override;
  void end_inputs() override;
  Event record() override;
  bool is_done(Event event) const noexcept override;
  bool inputs_read(Event event) const noexcept override;
  Completion wait(Event event) override;
  Status synchronize() override;

 private:
  // A kept launch: the function that runs it, and its arguments.
  struct Launch {
    void (*run)(Stream& stream, const void* args);
    const void* args;
  };
  // The launches between two events.
  class Work {
   public:
    Work();
    // Copies `value` and everything that its spans refer to.
    template <class T>
    const T* keep(T value);
    void clear();

    std::vector<Launch> launches;
    Completion completion;

   private:
    template <class T>
    std::span<const T> keep_all(std::span<const T> values);
    std::unique_ptr<std::byte[]> memory_;
    std::pmr::monotonic_buffer_resource arena_;  // uses memory_, then the heap
  };
  // The pending events, and the one being built.
  static constexpr uint32_t kNumWorks = kMaxPending + 1;

  AsyncStream(std::unique_ptr<Stream> stream, const StreamOptions& options);
  Work& of(Event event) { return works_[event % kNumWorks]; }
  void run() noexcept;
  void run(Work& work) noexcept;

  const std::unique_ptr<Stream> stream_;
  TurnTaking* const turn_taking_;  // of stream_; null: it takes no turns
  const Clock& clock_;
  const std::function<void()> on_done_;
  std::array<Work, kNumWorks> works_;
  // Used by the calling thread only.
  Event next_event_ = 0;  // of the launches being added
  Event next_wait_ = 0;
  std::mutex mutex_;
  std::condition_variable handed_, came_;
  Event num_handed_ = 0;  // guarded by mutex_
  bool stopping_ = false;
  std::atomic<Event> num_done_{0};  // written with mutex_ held
  // One past the last event whose end_inputs() has run.
  std::atomic<Event> num_read_{0};
  std::thread thread_;
};

}  // namespace itif::device
