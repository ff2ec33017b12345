// The device that runs the operators: memory, packed weights, and ordered streams of launches.
//
// The runtime is written once against this interface; the host device and the CUDA device implement
// it. Calls are virtual at batch granularity only. Control threads call Device methods, also while
// streams run, but only on memory that no launch in flight uses. A Stream belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/operators.h"
#include "tensor/tensor_view.h"

namespace itif::device {

// The quantity that streams share, in parts of Share::percent.
enum class Division : uint8_t {
  kNone,        // nothing: streams have no shares
  kTime,        // the time while other streams compute; streams compute in turns
  kProcessors,  // the multiprocessors, at all times
  kPriority,    // nothing in parts: launches of streams with larger shares start first
};

struct DeviceInfo {
  std::string kind = {};         // "host", "cuda"
  ComputeTypes compute = {};     // accumulation is f32
  std::string description = {};  // one line for logs: CPU or GPU name, instruction set, threads
  std::string reason = {};       // why this device: "as configured", "CUDA is not used: …"
  uint32_t num_threads = 0;      // threads of the compute pool; 0: a GPU, which has no pool
  size_t cache_bytes = 0;        // last-level cache that a CPU uses; 0: unknown, or a GPU
  size_t core_cache_bytes = 0;   // a core's own second-level cache; 0: unknown, or a GPU
  size_t memory_bytes = 0;       // available for weights and workspaces when the device was opened
  // Largest batch (rows, padding included) that is padded to a CUDA-graph bucket
  // (runtime/graph_buckets.h); 0: no graphs.
  uint32_t max_bucket_rows = 0;
  Division division = Division::kNone;
  // How shares are kept: "turns" (host), "green-contexts", "mps", "priorities" (CUDA), "none".
  std::string slices = "none";
  uint32_t slice_steps = 0;  // different slices that a stream can have, from small to large; 0: any
  // The modes in which the device can run the GEMMs of several ranges. Their speeds may differ.
  std::vector<kernels::GemmMode> gemm_modes = {kernels::GemmMode::kSequential,
                                               kernels::GemmMode::kConcurrent};
};

// Zeroed memory of the device, freed with the object. Move-only.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// The memory of a slot. Its last holder frees it: a slot of any slab, or a copy of the pointer. It
// outlives its slab, but not its device. Any thread may be the last holder.
class SlabEntry {
 public:
  virtual ~SlabEntry() = default;
};

// One kind of weight for all tenants of a group: max_slots · stride_bytes of contiguous addresses.
// Only committed slots occupy memory (ITIF equation 3.1, without paying for empty slots). Slots of
// the same weights can share it, also slots of different slabs of a device. One thread at a time
// changes a slab. Different slabs have different threads.
class SlabMemory {
 public:
  virtual ~SlabMemory() = default;
  kernels::Slab slab() const { return slab_; }
  uint32_t max_slots() const { return max_slots_; }
  virtual Status commit(uint32_t slot) = 0;  // Errors: kResourceExhausted
  // Returns true if entry() and share() are implemented for slots of this size. Slabs of one device
  // and equal strides return the same.
  virtual bool can_share() const { return false; }
  // Returns the slot's memory. REQUIRES: can_share(), and the slot has memory.
  virtual std::shared_ptr<const SlabEntry> entry(uint32_t /*slot*/) const { return nullptr; }
  // Gives `slot` memory that another slot has or had, which nobody may write to from then on.
  // REQUIRES: can_share(); `slot` has no memory; the entry is of a slab of this device with the
  // same stride. Errors: kResourceExhausted, kInternal.
  virtual Status share(uint32_t /*slot*/, const std::shared_ptr<const SlabEntry>& /*entry*/) {
    return fail(Code::kUnsupported, "the device's slots cannot share memory");
  }
  // Takes the memory from the slot, and frees it if that was the last holder. REQUIRES: the slot
  // has memory.
  virtual void release(uint32_t slot) = 0;

 protected:
  kernels::Slab slab_;
  uint32_t max_slots_ = 0;
};

// The weight of out = a · Wᵀ: W is [n, k], as in torch.nn.Linear.
struct GemmShape {
  uint32_t n = 0;
  uint32_t k = 0;
  kernels::Activation activation = kernels::Activation::kNone;
  bool has_bias = true;
  bool f32_out = false;  // the result is f32, regardless of the activation type
};

// Limits by which a stream sizes its scratch and staging memory. Larger batches are programming
// errors.
struct StreamLimits {
  uint32_t max_tokens = 16384;   // rows of a batch, and the longest segment
  uint32_t max_segments = 4096;  // segments, ranges and id pieces of a batch, each
  uint32_t max_blocks = 0;       // K/V cache blocks that a decoder step names
  // Expected bytes per batch, alignment of each piece included. The first batches that need more
  // wait for memory to be allocated.
  size_t result_bytes = 0;        // copied by copy_to_host()
  size_t unregistered_bytes = 0;  // ids and pixels outside registered memory
};

// The part of a device that a stream computes on. To change a group's CPUs, give the group another
// stream.
struct Share {
  // CPUs for the stream's thread and the compute pool that it starts, which has at most one thread
  // for each; empty: all CPUs of the process. No effect on a GPU's computing.
  std::vector<unsigned> cpus = {};
  // In percent. Host: part of the time of these CPUs while other streams compute on them. It counts
  // in proportion to theirs: 100 each halves the time of two. 0: the default, 100. GPU: part of its
  // multiprocessors, rounded to steps (DeviceInfo::slice_steps); if the streams' parts exceed 100,
  // they shrink in proportion. 0: the stream has no part of its own; it uses the whole GPU.
  double percent = 0;
};

struct StreamOptions {
  Share share = {};
  // Launches run asynchronously, so that the caller can prepare the next batch meanwhile. Host: the
  // stream's own thread runs them after record(); otherwise each runs in the calling thread.
  bool is_async = false;
  // Worker threads run on the stream's CPUs. Host: sleep_early() shortens the
  // pool's spinning.
  bool shares_cpus = false;
  const Clock* clock = nullptr;  // outlives the stream. REQUIRES: set if is_async
  // Called by the stream's thread each time an event's inputs have been read, and each time an
  // event is done.
  std::function<void()> on_done = {};
  // Returns true if work waits for the stream's owner, whose thread may lack a CPU to notice it.
  // Any thread, until the stream ends. Host: a stream that computes on that CPU then yields it.
  std::function<bool()> is_awaited = {};
};

// Holds what a device prepared for a shape. All callers that prepared the shape share it; the last
// one frees it.
using GemmHandle = std::shared_ptr<const kernels::PreparedGemm>;

class Stream;

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Bytes that can be allocated now.
  virtual size_t available_bytes() const = 0;

  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
  // Errors: kResourceExhausted.
  virtual Result<std::unique_ptr<SlabMemory>> reserve_slab(size_t slot_bytes,
                                                           uint32_t max_slots) = 0;

  // Copies `source` (host memory, any floating type) to device memory as `type`.
  virtual Status upload(const TensorView& source, DType type, void* target) = 0;
  // Copies device memory to host memory. REQUIRES: no launch in flight writes it.
  virtual void download(const void* source, size_t bytes, void* target) = 0;

  // Bytes of a GEMM's weights in the layout that this device computes fastest with. The layout may
  // hold more than W, such as a copy of the bias. Scales of quantised weights (one, or [n]) belong
  // here too: pack() computes them, and the GEMM finds them from GroupedGemm::weights. Errors:
  // kUnsupported, a shape that the device's library does not have.
  virtual Result<size_t> packed_bytes(const GemmShape& shape) = 0;
  // Packs row-major `weight` [n, k]; several views fill one W from the top down (fused
  // QKV: three [H, H] into [3H, H]). REQUIRES: the views' rows add up to shape.n.
  virtual Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) = 0;
  // Returns true if the packed weight holds a copy of its bias, which pack_bias() must then fill.
  virtual bool packs_bias(const GemmShape&) const { return false; }
  // Packs the bias [n] of a weight that was packed at `target`, for devices whose GEMMs need it in
  // the weights' type.
  virtual Status pack_bias(const GemmShape&, std::span<const TensorView>, void* /*target*/) {
    return {};
  }
  // Prepares GEMMs of up to max_rows rows (host: the ladder of primitives), so that the serving
  // path creates nothing. The handle goes into GroupedGemm::prepared and must outlive its launches.
  // Errors: kUnsupported, a shape that the device's library does not have; kResourceExhausted.
  virtual Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows) = 0;
  // Rows past T that a GEMM may read and overwrite in its activation buffers.
  virtual uint32_t row_slack() const = 0;

  // Lets GatherIds and GatherPatches read [data, data + bytes) of host memory in place. Called at
  // start for each segment of packet memory. Host: no effect. Errors: kResourceExhausted,
  // kUnsupported.
  virtual Status register_host_memory(const void* data, size_t bytes) = 0;

  // Makes the threads that compute sleep early while they wait for each other (true), because other
  // threads of the process want their CPUs for a while, or ends that (false). Each call of the one
  // needs one of the other. Does nothing on devices that do not compute on CPUs. Any thread.
  virtual void sleep_early(bool) noexcept {}
  // Notes that models are loaded beside batches from now on (true), or no longer (false). Host:
  // sleep_early(), and streams yield their CPU only to requests, not to the loads. One caller.
  virtual void set_loading(bool) noexcept {}

  // Restarts the device after a fault. Host memory stays registered. REQUIRES: no stream of it
  // exists. Errors: kUnsupported (a host device), kUnavailable (memory in use), kInternal (lost).
  virtual Status reset() { return fail(Code::kUnsupported, "the device needs no reset"); }

  // Errors: kResourceExhausted, kInternal.
  virtual Result<std::unique_ptr<Stream>> make_stream(const StreamLimits& limits = {},
                                                      const StreamOptions& options = {}) = 0;
};

// Launches run in order. They are complete when synchronize() returns, or wait() for an event that
// was recorded after them. Both report the launches' errors.
class Stream {
 public:
  // Identifies the launches between two calls of record(); 0, 1, …
  using Event = uint64_t;
  struct Completion {
    // Errors: kResourceExhausted, no memory for the batch; kUnsupported, the device's library
    // refused a launch; else a device fault: the device is then unusable.
    Status status;
    uint64_t device_ns = 0;  // from start to end on the device; 0: not measured
  };
  static constexpr uint32_t kMaxPending = 2;

  virtual ~Stream() = default;
  // Call once, from the thread that owns the stream, before its first launch. Host: pins that
  // thread, and the compute pool that it starts, to the stream's CPUs, whatever its creator was
  // pinned to.
  virtual void attach_thread() = 0;
  // Launches an operator of kernels/operators.h.
  template <kernels::OperatorArgs Args>
  void launch(const Args& args) {
    dispatch(&args);
  }
  void launch(const kernels::GroupedGemm& args) { launch(kernels::GroupedGemms{{&args, 1}}); }
  void launch(const kernels::SmallLinear& args) { launch(kernels::SmallLinears{{&args, 1}}); }
  // As launch(), for the code that treats all operators alike. REQUIRES: op points to arguments.
  virtual void dispatch(kernels::Operator op) = 0;
  // Makes the threads that compute sleep early (true) or spin (false, the default) while they wait
  // for each other, from one of the next launches on. Does nothing without
  // StreamOptions::shares_cpus, and on devices that do not compute on CPUs. Call it rarely: a
  // switch wakes another thread.
  virtual void sleep_early(bool) noexcept {}
  // Changes the stream's Share::percent, from one of the next launches on; CUDA: from the next
  // batch on. Any thread. Does nothing on devices whose streams have no shares.
  virtual void set_percent(double) noexcept {}
  struct Slice {
    uint32_t processors = 0;  // multiprocessors that launches run on; 0: all of the device
    uint64_t switches = 0;    // to another slice, so far: graphs are captured for each slice
  };
  // The slice of the latest launches. Call it from the thread that owns the stream.
  virtual Slice slice() const noexcept { return {}; }
  // Ends a graph segment: the launches since the last call are captured and replayed as one graph.
  virtual void end_graph_segment() {}
  // As end_graph_segment(), for a segment that must not depend on the launches before it: a decoder
  // step, which may or may not follow new sources.
  virtual void begin_step() { end_graph_segment(); }
  // From now on, launches run as graphs if possible (true, the default), or kernel by kernel
  // (false), so that each operator or their launches can be timed.
  virtual void use_graphs(bool) {}
  // Call instead of record(): captures the graph segments since the last event without running
  // them. Device pointers need not be valid. Errors: kInternal, kUnsupported (no graphs). REQUIRES:
  // DeviceInfo::max_bucket_rows > 0; no copy_to_host() since the last event.
  virtual Status warm_up() { return fail(Code::kUnsupported, "the device has no graphs"); }
  struct Graphs {
    uint64_t kept = 0;      // graphs held
    uint64_t launches = 0;  // graph launches so far
    uint64_t failures = 0;  // segments without a graph so far: captures that failed, or too short
  };
  virtual Graphs graphs() const noexcept { return {}; }
  // Kinds of GEMM calls that the device's library has refused so far, and that simpler calls have
  // replaced.
  virtual uint64_t refused_gemms() const noexcept { return 0; }
  // Copies device memory to host memory, in order with the launches.
  virtual void copy_to_host(const void* source, size_t bytes, void* target) = 0;
  // Call after a batch's last gather (GatherIds, GatherPatches) if the owner waits for its input
  // memory. The next event's inputs_read() then turns true once the gathers have read that memory.
  // This is long before the event is done. REQUIRES: at most one call per event.
  virtual void end_inputs() {}
  // REQUIRES: fewer than kMaxPending events are pending (recorded and not yet waited for).
  virtual Event record() = 0;
  // Returns true if wait() would not block.
  virtual bool is_done(Event event) const noexcept = 0;
  // Returns true if the gathers' input memory may be written again. Without end_inputs(): once the
  // event is done. REQUIRES: a pending event.
  virtual bool inputs_read(Event event) const noexcept { return is_done(event); }
  // Returns true if StreamOptions::on_done is called. False: the caller must poll is_done().
  virtual bool calls_on_done() const noexcept { return true; }
  // REQUIRES: each event is waited for once, in order.
  virtual Completion wait(Event event) = 0;
  // Waits for all launches. REQUIRES: no event is pending. Errors: as Completion::status.
  virtual Status synchronize() = 0;
};

// A synchronous stream: each launch has run when its call returns.
class ImmediateStream : public Stream {
 public:
  Event record() override { return next_event_++; }
  bool is_done(Event) const noexcept override { return true; }
  Completion wait(Event) override { return {.status = synchronize()}; }

 private:
  Event next_event_ = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto, host, cuda
  // The GPU, as the CUDA runtime counts them. With another one than 0, the host device is refused.
  uint32_t ordinal = 0;
  std::string reason = {};     // DeviceInfo::reason; empty: open_device() fills it in
  std::string dtype = "auto";  // auto, or a name of kComputeTypes
  // Attention kernels on a GPU: itif, cudnn or cudnn-only. With cudnn, itif's kernels run what
  // cuDNN does not support; with cudnn-only that fails.
  std::string attention = "itif";
  // How a GPU keeps the streams' shares: auto (the first that works), green-contexts, mps,
  // priorities or none.
  std::string slices = "auto";
  uint32_t num_threads = 0;       // host: compute threads; 0: one per core
  size_t memory_limit_bytes = 0;  // for buffers and slabs together; 0: the machine's memory
};

// Opens a device. With kind auto and no GPU, driver or CUDA build: logs one line and opens the host
// device. Errors: kUnsupported (kind, ordinal or dtype that this machine or build lacks),
// kInvalidArgument.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

}  // namespace itif::device
