// The state of the simulated machine (runtime.h). Only for the sources of this folder.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "runtime.h"
#include "simt.h"

namespace simt {

using Work = std::function<void()>;

// Identifies the code of a kernel: its address, or a library's call and sizes.
using Code = std::vector<int64_t>;

// A position in a stream.
struct Mark {
  Stream* stream = nullptr;
  uint64_t number = 0;  // items that are done by then
};

class Graph;

// The primary context of the device, or one that the driver made (contexts.cc).
class Context {
 public:
  uint64_t number = 0;  // 0: a primary one
  unsigned limit = 0;   // multiprocessors; 0: all
  bool is_alive = true;
};
// Device memory that a context takes, except the primary one.
constexpr size_t kContextBytes = 1 << 20;

class Event {
 public:
  Event(unsigned flags, const Context* context) : flags(flags), context(context) {}
  const unsigned flags;
  const Context* const context;
  Mark mark;
  bool is_recorded = false;
  Graph* captured_in = nullptr;  // the graph that its stream was capturing then
  Stream* captured_from = nullptr;
  double ms = 0;  // time of completion
};

struct Item {
  Work work;               // either this
  Event* event = nullptr;  // or an event that completes here
  Mark waits_for;          // must be reached before
  bool is_graph = false;   // its nodes count as launches
};

// Work of a graph. It runs where its stream was when it was captured.
struct PlacedWork {
  Work work;
  Place place;
};

class Graph {
 public:
  std::vector<PlacedWork> works;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began the capture
  // Invalidated by a call that cannot be captured, or by another thread's device-wide wait.
  bool is_broken = false;
  // Streams that an event forked into the capture and that have not been joined.
  std::set<Stream*> unjoined;
};
// Device memory that a node of an instantiated graph takes.
constexpr size_t kGraphNodeBytes = 64 << 10;
class GraphExec {
 public:
  std::vector<PlacedWork> works;
  size_t bytes = 0;
  const Context* context = nullptr;
  uint64_t num_resets = 0;  // earlier ones; a reset frees the memory
};

struct GreenContext {
  Multiprocessors all;
};

class Stream {
 public:
  explicit Stream(const Context* context) : context(context) {
    if (context == nullptr) return;
    place.context = context->number;
    place.limit = context->limit;
  }
  const Context* const context;  // null: the legacy stream, which is of any
  GreenContext* green = nullptr;
  Place place;  // lower priorities go first
  std::deque<Item> items;
  uint64_t num_put = 0, num_done = 0;
  Graph* captures = nullptr;
  bool begins_capture = false;  // false: an event forked it into the capture
  bool is_blocking = false;     // the legacy stream waits for its work
};

class Runtime {
 public:
  std::recursive_mutex mutex;
  DeviceOptions device;
  Counts counts;
  static inline thread_local cudaError_t last_error = cudaSuccess;
  static inline thread_local std::vector<Context*> contexts_of_thread;  // the last one is current
  static inline thread_local int device_of_thread = 0;
  std::vector<std::unique_ptr<Context>> contexts;  // also the dead, which threads may know
  Context* primary = nullptr;
  uint64_t num_resets = 0;
  bool is_faulty = false, fault_stays = false;
  bool is_lost = false;  // to this process: a reset did not end the fault
  std::atomic<std::thread::id> resetting_thread;
  uint64_t faults_after = UINT64_MAX, breaks_captures_after = UINT64_MAX;
  std::map<std::byte*, size_t> device_memory, pinned, registered;
  struct Mapping {
    uint64_t piece = 0;
    bool is_accessible = false;
  };
  struct Piece {
    size_t bytes = 0;
    off_t offset = 0;  // in the file of pieces_fd
    bool is_held = true, is_filled = false;
    uint32_t num_mappings = 0;
  };
  std::map<std::byte*, Mapping> mappings;
  std::map<uint64_t, Piece> pieces;
  uint64_t num_pieces = 0;
  off_t pieces_end = 0;  // of the file
  // The pieces' memory, so that one can be mapped at several addresses.
  const int pieces_fd = memfd_create("simt-pieces", MFD_CLOEXEC);
  std::vector<std::unique_ptr<Stream>> streams;
  std::mt19937_64 random{1};
  std::map<std::pair<const Context*, const void*>, size_t> max_shared;
  std::set<std::pair<const Context*, Code>> loaded;
  size_t graph_bytes = 0;  // of instantiated graphs
  std::vector<std::unique_ptr<GreenContext>> green_contexts;
  std::vector<std::shared_ptr<Resources>> descriptions;
  uint64_t num_splits = 0;
  size_t used_elsewhere = 0;  // bytes
  std::vector<LaunchedOn> launched_on;
  bool was_reset = false;

  Runtime() { streams.push_back(std::make_unique<Stream>(nullptr)); }  // the default stream

  cudaError_t set(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
  }
  size_t free_bytes() const {
    const size_t used = counts.live_device_bytes + used_elsewhere + num_live() * kContextBytes;
    return device.memory_bytes - std::min(device.memory_bytes, used);
  }
  // Returns the error of every runtime call that uses the device while it is unusable.
  cudaError_t check() {
    if (!device.is_there) return set(cudaErrorInsufficientDriver);
    if (device_of_thread != device.ordinal) return set(cudaErrorInvalidDevice);
    if (!device.is_free || is_lost) return set(cudaErrorDevicesUnavailable);
    if (!enter()->is_alive) return set(cudaErrorContextIsDestroyed);
    return is_faulty ? set(cudaErrorIllegalAddress) : cudaSuccess;
  }
  // The same, for work on a stream.
  cudaError_t check(Stream* stream) {
    const cudaError_t error = check();
    return error == cudaSuccess ? refuse_foreign(of(stream).context) : error;
  }
  // Refuses the use of an object in a thread where another context is current than the object's.
  cudaError_t refuse_foreign(const Context* context) {
    return context == nullptr || context == current() ? cudaSuccess
                                                      : set(cudaErrorInvalidResourceHandle);
  }

  static Context* current() {
    return contexts_of_thread.empty() ? nullptr : contexts_of_thread.back();
  }
  static void set_current(Context* context) {
    if (contexts_of_thread.empty()) contexts_of_thread.push_back(nullptr);
    contexts_of_thread.back() = context;
  }
  // Gives a thread the primary context unless it has a limited one. Returns the current context.
  Context* enter() {
    if (current() != nullptr && current()->number != 0) return current();
    if (primary == nullptr) primary = contexts.emplace_back(std::make_unique<Context>()).get();
    set_current(primary);
    return primary;
  }
  // Number of contexts that the driver made and that are alive.
  size_t num_live() const {
    return static_cast<size_t>(std::ranges::count_if(
        contexts, [](const auto& one) { return one->number != 0 && one->is_alive; }));
  }

  // The same for calls of the driver.
  CUresult check_driver() const {
    if (current() == nullptr || !current()->is_alive) return CUDA_ERROR_INVALID_CONTEXT;
    return is_faulty ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
  }

  Stream& legacy() { return *streams[0]; }
  Stream& of(Stream* stream) { return stream == nullptr ? legacy() : *stream; }

  bool is_capturing(const Graph* graph) const {
    return std::ranges::any_of(streams, [&](const auto& one) { return one->captures == graph; });
  }
  bool captures_blocking_stream() const {
    return std::ranges::any_of(
        streams, [](const auto& one) { return one->captures != nullptr && one->is_blocking; });
  }
  // Loads code at its first use, for a launch on `stream`. Fails during a capture, which it
  // invalidates: loading may synchronise the device. Source: "Lazy Loading" of the programming
  // guide.
  cudaError_t load(const Code& code, Stream* stream) {
    Graph* const graph = of(stream).captures;
    if (loaded.contains({current(), code})) return cudaSuccess;
    if (graph != nullptr) {
      graph->is_broken = true;
      return set(cudaErrorStreamCaptureUnsupported);
    }
    loaded.insert({current(), code});
    ++counts.loads;
    return cudaSuccess;
  }
  // Refuses a call that is unsafe during a capture, and invalidates the capture. It applies to
  // captures of this thread that are not relaxed, and to global captures of any thread. Source:
  // cudaThreadExchangeStreamCaptureMode().
  cudaError_t refuse_unsafe() {
    return invalidate(cudaErrorStreamCaptureUnsupported, [](const Stream& stream) {
      const Graph& graph = *stream.captures;
      return graph.mode == cudaStreamCaptureModeGlobal ||
             (graph.mode == cudaStreamCaptureModeThreadLocal &&
              graph.thread == std::this_thread::get_id());
    });
  }
  // Refuses work on the legacy stream while a stream is captured that it waits for.
  cudaError_t refuse_legacy() {
    return invalidate(cudaErrorStreamCaptureImplicit,
                      [](const Stream& stream) { return stream.is_blocking; });
  }
  // Refuses a call that waits for work on the legacy stream, such as cudaMemcpy().
  cudaError_t refuse_synchronous() {
    const cudaError_t error = refuse_legacy();
    return error == cudaSuccess ? refuse_unsafe() : error;
  }
  // Refuses to wait for or query a stream. Captured work is not scheduled for execution.
  cudaError_t refuse_wait(Stream* stream) {
    const cudaError_t error = invalidate(cudaErrorStreamCaptureUnsupported, [&](const Stream& one) {
      return one.captures == of(stream).captures;
    });
    if (error != cudaSuccess) return error;
    return &of(stream) == &legacy() ? refuse_synchronous() : refuse_unsafe();
  }
  // The same for an event, which a capture may have recorded.
  cudaError_t refuse_wait(const Event& event) {
    if (event.captured_in == nullptr) return refuse_unsafe();
    (void)invalidate(cudaErrorCapturedEvent,
                     [&](const Stream& one) { return one.captures == event.captured_in; });
    return set(cudaErrorCapturedEvent);
  }

  static bool holds(const std::map<std::byte*, size_t>& all, const void* memory, size_t bytes) {
    const auto* at = static_cast<const std::byte*>(memory);
    auto it = all.upper_bound(const_cast<std::byte*>(at));
    if (it == all.begin()) return false;
    --it;
    const std::byte* end = it->first + it->second;
    while (end < at + bytes && ++it != all.end() && it->first == end) end += it->second;
    return at + bytes <= end && at < end;
  }
  bool is_device(const void* memory, size_t bytes) const {
    return holds(device_memory, memory, bytes);
  }
  bool is_pinned(const void* memory, size_t bytes) const {
    return holds(pinned, memory, bytes) || holds(registered, memory, bytes);
  }

  cudaError_t put(Stream* stream, Item item, bool counts_as_launch) {
    Stream& to = of(stream);
    if (&to == &legacy())
      if (const cudaError_t error = refuse_legacy(); error != cudaSuccess) return error;
    if (to.captures != nullptr) {
      if (breaks_captures_after != UINT64_MAX && breaks_captures_after-- == 0)
        (void)break_captures();
      if (to.captures->is_broken) return set(cudaErrorStreamCaptureInvalidated);
      if (item.work == nullptr) return cudaSuccess;
      to.captures->works.push_back({std::move(item.work), to.place});
      if (!to.begins_capture) to.captures->unjoined.insert(&to);
      return cudaSuccess;
    }
    if (counts_as_launch && counts.launches++ >= faults_after) is_faulty = true;
    if (is_faulty) return set(cudaErrorIllegalAddress);
    if (counts_as_launch && !item.is_graph) count_launch(to.place);
    to.items.push_back(std::move(item));
    ++to.num_put;
    return cudaSuccess;
  }

  void count_launch(const Place& place) {
    const auto found = std::ranges::find(launched_on, place, &LaunchedOn::place);
    if (found != launched_on.end()) return void(++found->launches);
    launched_on.push_back({place, 1});
  }

  void advance(Stream& stream) {
    Item item = std::move(stream.items.front());
    stream.items.pop_front();
    if (item.waits_for.stream != nullptr) reach(item.waits_for);
    if (item.work && !is_faulty) item.work();
    ++stream.num_done;
    if (item.event != nullptr) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      item.event->ms = std::chrono::duration<double, std::milli>(now).count();
    }
  }
  // Other streams may advance meanwhile, as on a device.
  void reach(const Mark& mark) {
    Stream& stream = *mark.stream;
    while (stream.num_done < mark.number) {
      Stream& other =
          *streams[std::uniform_int_distribution<size_t>(0, streams.size() - 1)(random)];
      if (&other != &stream && !other.items.empty() && other.captures == nullptr && !waits(other))
        advance_one(other);
      if (stream.num_done < mark.number) advance_one(stream);
    }
  }
  // A device-wide synchronisation invalidates every capture in progress, and itself fails.
  cudaError_t break_captures() {
    return invalidate(cudaErrorStreamCaptureUnsupported, [](const Stream&) { return true; });
  }
  void drain(Stream& stream) { reach({&stream, stream.num_put}); }
  void drain_all() {
    for (auto& stream : streams) drain(*stream);
  }

 private:
  // Invalidates the captures of the streams that `applies` to. Returns `error` if there are any.
  template <class Applies>
  cudaError_t invalidate(cudaError_t error, const Applies& applies) {
    bool is_any = false;
    for (auto& stream : streams) {
      if (stream->captures == nullptr || !applies(*stream)) continue;
      stream->captures->is_broken = is_any = true;
    }
    return is_any ? set(error) : cudaSuccess;
  }
  // Returns whether a stream's first item must wait for another stream, which may wait for this
  // one.
  static bool waits(const Stream& stream) {
    const Mark& mark = stream.items.front().waits_for;
    return mark.stream != nullptr && mark.stream->num_done < mark.number;
  }
  // Does not enter a stream twice whose first item waits for another stream.
  void advance_one(Stream& stream) {
    if (std::ranges::find(advancing_, &stream) != advancing_.end()) return;
    advancing_.push_back(&stream);
    advance(stream);
    advancing_.pop_back();
  }
  std::vector<Stream*> advancing_;
};

Runtime& runtime();
// Does not free the driver's virtual memory, which belongs to no context.
void free_memory_of_context();
void free_green_contexts();
class Lock {
 public:
  explicit Lock(std::recursive_mutex& mutex) : lock_(mutex) {
    const std::thread::id resetting = runtime().resetting_thread;
    if (resetting != std::thread::id{} && resetting != std::this_thread::get_id())
      fail("a call while another thread resets the device");
  }

 private:
  const std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace simt
