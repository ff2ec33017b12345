// The device that runs the operators: memory, packed weights, and ordered streams of launches.
//
// The runtime is written once against this; `host` implements it, and a CUDA device is to fit behind it.
// Virtual at batch granularity only. Device methods are for control threads and may be called while
// streams run, on memory that no launch in flight uses; a Stream belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/args.h"
#include "kernels/decode_args.h"
#include "kernels/thesis_args.h"
#include "tensor/tensor_view.h"

namespace itif::device {

struct DeviceInfo {
  std::string kind;             // "host", "cuda"
  DType compute = DType::kF32;  // activations and GEMM weights; accumulation is f32
  std::string description;      // one line for logs: CPU or GPU name, instruction set, threads
  std::string reason;           // why this device: "as configured", "CUDA is not used: …"
  uint32_t num_threads = 0;     // of the compute pool; 0: the device deals work by itself
  size_t memory_bytes = 0;      // what there was for weights and workspaces at the start
  // Batches of up to so many rows, padding included, are to come in few forms (runtime/batch_forms.h), which the
  // device then makes by one launch each; 0: it gains nothing by that.
  uint32_t form_rows = 0;
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

// One weight kind of all tenants of a group: max_slots · stride_bytes of contiguous addresses, of
// which only the committed slots occupy memory (ITIF equation 3.1, without paying for empty slots).
class SlabMemory {
 public:
  virtual ~SlabMemory() = default;
  kernels::Slab slab() const { return slab_; }
  uint32_t max_slots() const { return max_slots_; }
  virtual Status commit(uint32_t slot) = 0;  // Errors: kResourceExhausted
  virtual void release(uint32_t slot) = 0;   // gives the slot's memory back

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
  bool f32_out = false;  // the result is f32 whatever the activation type is
};

// What a stream sizes its scratch and staging memory for. Larger batches are programming errors.
struct StreamLimits {
  uint32_t max_tokens = 16384;   // rows of a batch, and the longest segment
  uint32_t max_segments = 4096;  // segments, ranges and id pieces of a batch, each
  uint32_t max_blocks = 0;       // of the K/V cache that a decoder's step names
  // Of a batch, with room to align each piece. Where it is more, the first such batches wait for memory.
  size_t result_bytes = 0;        // that copy_to_host() brings
  size_t unregistered_bytes = 0;  // ids and pixels outside registered memory
};

struct StreamOptions {
  // Where the stream's thread and the compute pool that it starts may run; empty: on all CPUs of the
  // process's.
  std::span<const unsigned> cpus = {};
  // Launches return before they have run, so that the caller may prepare the next batch meanwhile. Host:
  // they run on a thread of the stream's own, once recorded; otherwise at once, on the caller's.
  bool runs_apart = false;
  const Clock* clock = nullptr;  // outlives the stream. REQUIRES: one if it runs apart
  // Called by that thread whenever an event has come, or its inputs have been read.
  std::function<void()> on_done = {};
};

// Keeps what a device made for a shape; shared by all who prepared it, freed with the last.
using GemmHandle = std::shared_ptr<const kernels::PreparedGemm>;

class Stream;

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // What could be allocated now.
  virtual size_t available_bytes() const = 0;

  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
  // Errors: kResourceExhausted.
  virtual Result<std::unique_ptr<SlabMemory>> reserve_slab(size_t slot_bytes,
                                                           uint32_t max_slots) = 0;

  // Copies `source` (host memory, any floating type) to device memory as `type`.
  virtual Status upload(const TensorView& source, DType type, void* target) = 0;
  // Copies device memory to host memory. REQUIRES: no launch in flight writes it.
  virtual void download(const void* source, size_t bytes, void* target) = 0;

  // GEMM weights, in the layout that this device computes fastest with. Errors: kUnsupported, a shape
  // that the device's library does not have.
  virtual Result<size_t> packed_bytes(const GemmShape& shape) = 0;
  // Packs row-major `weight` [n, k]; several views fill one W from the top down (fused
  // QKV: three [H, H] into [3H, H]). REQUIRES: the views' rows add up to shape.n.
  virtual Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) = 0;
  // Likewise the bias [n] of a weight that was packed at `target`, for devices whose GEMMs take it in a type of theirs.
  virtual Status pack_bias(const GemmShape&, std::span<const TensorView>, void* /*target*/) {
    return {};
  }
  // Makes whatever GEMMs of up to max_rows rows need (host: the ladder of primitives), so that
  // nothing is created on the serving path. The handle goes into GroupedGemm::prepared and outlives its
  // launches. Errors: kUnsupported, kResourceExhausted.
  virtual Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows) = 0;
  // Rows past T that a GEMM may read and overwrite in its activation buffers.
  virtual uint32_t row_slack() const = 0;

  // Lets launches read [data, data + bytes) of host memory in place (GatherIds, GatherPatches): the packet memory,
  // once each segment at start. Host: nothing to do. Errors: kResourceExhausted, kUnsupported.
  virtual Status register_host_memory(const void* data, size_t bytes) = 0;

  // Starts it anew after a fault. REQUIRES: nothing of it is left, neither buffers nor slabs nor streams; host memory
  // stays registered. Errors: kUnsupported (a host, which does not fail so), kInternal.
  virtual Status reset() { return fail(Code::kUnsupported, "the device needs no reset"); }

  // Errors: kResourceExhausted, kInternal.
  virtual Result<std::unique_ptr<Stream>> make_stream(const StreamLimits& limits = {},
                                                      const StreamOptions& options = {}) = 0;
};

// Launches run in order; they are complete when synchronize() returns, or wait() for an event behind them.
// Errors are reported there.
class Stream {
 public:
  // What was launched between two calls of record(); 0, 1, …
  using Event = uint64_t;
  struct Completion {
    Status status;           // kInternal: a device fault; the device is then unusable
    uint64_t device_ns = 0;  // from its start on the device to its end; 0: not measured
  };
  static constexpr uint32_t kMaxPending = 2;

  virtual ~Stream() = default;
  // Once, from the thread that owns the stream, before its first launch. Host: the thread, and with it
  // the compute pool that it starts, moves to the stream's CPUs, whatever its creator was pinned to.
  virtual void attach_thread() = 0;
  virtual void gather_ids(const kernels::GatherIds& args) = 0;
  virtual void embed_layer_norm(const kernels::EmbedLayerNorm& args) = 0;
  virtual void gather_patches(const kernels::GatherPatches& args) = 0;
  virtual void embed_patches(const kernels::EmbedPatches& args) = 0;
  // Where attention() or residual_layer_norm() follows and reads the result, it may be that launch which adds the bias:
  // behind it the result is undefined. REQUIRES of such an attention: a segment's rows are of one tenant.
  virtual void gemm(const kernels::GroupedGemm& args) = 0;
  // GEMMs that need not wait for one another, such as query, key and value. CUDA: calls spread over streams, joined
  // before the next launch. Host: where all of them run at once, one deal of all their ranges over the
  // threads; else one after another. REQUIRES: none writes what another reads or writes.
  virtual void gemms(std::span<const kernels::GroupedGemm> all) = 0;
  virtual void attention(const kernels::Attention& args) = 0;
  virtual void residual_layer_norm(const kernels::ResidualLayerNorm& args) = 0;
  virtual void pool_segments(const kernels::PoolSegments& args) = 0;
  virtual void to_f32(const kernels::ToF32& args) = 0;
  // Heads of several tenants at once. REQUIRES: none reads what another writes.
  virtual void small_linears(std::span<const kernels::SmallLinear> all) = 0;
  void small_linear(const kernels::SmallLinear& args) { small_linears({&args, 1}); }
  // Decoders: kernels/decode_args.h.
  virtual void embed_positions(const kernels::EmbedPositions& args) = 0;
  virtual void append_kv(const kernels::AppendKv& args) = 0;
  virtual void copy_kv(const kernels::CopyKv& args) = 0;
  virtual void cached_attention(const kernels::CachedAttention& args) = 0;
  virtual void top_tokens(const kernels::TopTokens& args) = 0;
  // The thesis's form of a block: kernels/thesis_args.h.
  virtual void bias_activation(const kernels::BiasActivation& args) = 0;
  virtual void split_heads(const kernels::SplitHeads& args) = 0;
  virtual void merge_heads(const kernels::MergeHeads& args) = 0;
  virtual void batched_gemm(const kernels::BatchedGemm& args) = 0;
  virtual void softmax(const kernels::Softmax& args) = 0;
  // What is launched from here on, and what was since the last call, may come again each with others: a device that
  // makes what comes again by one launch takes them for two things.
  virtual void begin_part() {}
  // Likewise, of what is the same whether something came before it or not, as a decoder's step is with sources.
  virtual void begin_step() { begin_part(); }
  // From here on each launch is made by itself though it came before: for who times them.
  virtual void launch_one_by_one() {}
  // Instead of record(): nothing that was launched since the last event runs, but its parts are as if they had come
  // before. Device pointers need not lead anywhere. Errors: kInternal. REQUIRES: DeviceInfo::form_rows; no copies.
  virtual Status make_ready() { return fail(Code::kUnsupported, "the device keeps no launches"); }
  struct Graphs {
    uint64_t kept = 0;      // parts that are one launch when they come again
    uint64_t launches = 0;  // of such, so far
  };
  virtual Graphs graphs() const noexcept { return {}; }
  // device → host, ordered with the launches.
  virtual void copy_to_host(const void* source, size_t bytes, void* target) = 0;
  // Behind the last gather (GatherIds, GatherPatches) of memory whose owner waits for it: inputs_read() of the next
  // event then says when what was shown to the gathers so far has been read, which is long before the event.
  // REQUIRES: at most once for each event.
  virtual void end_inputs() {}
  // REQUIRES: fewer than kMaxPending events were recorded that were not waited for.
  virtual Event record() = 0;
  // Whether wait() would not.
  virtual bool is_done(Event event) const noexcept = 0;
  // Whether it may be written to. Without end_inputs(): when the event has come. REQUIRES: a pending event.
  virtual bool inputs_read(Event event) const noexcept { return is_done(event); }
  // Whether StreamOptions::on_done is called. False: who waits has to ask is_done() time and again.
  virtual bool calls_on_done() const noexcept { return true; }
  // REQUIRES: each event once, in their order.
  virtual Completion wait(Event event) = 0;
  // Waits for all that was launched. REQUIRES: no event is pending. Errors: as Completion::status.
  virtual Status synchronize() = 0;
};

// A stream whose launches have run when they return.
class ImmediateStream : public Stream {
 public:
  Event record() override { return next_event_++; }
  bool is_done(Event) const noexcept override { return true; }
  Completion wait(Event) override { return {.status = synchronize()}; }

 private:
  Event next_event_ = 0;
};

struct DeviceOptions {
  std::string kind = "auto";   // auto, host, cuda
  std::string reason = {};     // DeviceInfo::reason, for those that open_device() chooses
  std::string dtype = "auto";  // auto, f32, bf16, f16
  // Whose kernels attend on a GPU: itif, cudnn, or cudnn-only, where what cuDNN lacks fails, else itif's have it.
  std::string attention = "itif";
  uint32_t num_threads = 0;       // host: 0 for one a core
  size_t memory_limit_bytes = 0;  // for buffers and slabs together; 0: what the machine has
};

// Errors: kUnsupported (kind or dtype this machine or build cannot), kInvalidArgument. With kind auto a
// missing GPU, driver or CUDA build is one log line and the host device.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

}  // namespace itif::device
