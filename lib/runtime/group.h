// A group: one backbone with the concatenated weights of its tenants, and the forward pass that
// serves requests of all of them in one batch.
//
// Threads: control calls admit() and release(), one call at a time. The group's executor calls
// begin() and finish(). Both may call model(). They share only the slot table, through atomic
// pointers: admit() fills a slot before it publishes it, and release() is called when no current or
// later segment names the slot. Neither thread waits for the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "base/error.h"
#include "device/device.h"
#include "kernels/args.h"
#include "model/tenant_model.h"
#include "model/weight_store.h"
#include "plan/cost_tables.h"
#include "request/request.h"
#include "wire/header.h"

namespace itif::backbone {
class Decoder;
}

namespace itif::runtime {

struct GenerationBuckets;
struct PreparedInput;

// A request's place in a batch.
struct BatchRequest {
  // begin() reads what arrived, finish() has written the outcome. REQUIRES: num_tokens is set
  // (images: all positions of the model).
  request::Request* request = nullptr;
  const PreparedInput* prepared = nullptr;  // the request's; nullptr: none
  uint32_t num_rows = 0;  // rows in the batch, with padding after the tokens; 0: num_tokens
  // Adjacent segments of a tenant share a GEMM call if they are in the same mini-batch of the plan.
  uint32_t mini_batch = 0;
};

// Host memory that begin() and finish() use. The caller must not touch it, nor the outcome of its
// requests, between the two.
struct Batch {
  // In any order.
  std::span<const BatchRequest> segments;
  // Set by begin(): rows computed beyond those of the segments, to fill the batch's graph bucket.
  uint32_t num_padding_rows = 0;
};

struct GroupOptions {
  uint32_t max_tokens = 4096;   // of one batch
  uint32_t max_requests = 256;  // of one batch
  uint32_t max_tenants = 64;    // slots
  // Groups that generate: live beams per step, and the memory limit of the K/V cache. The cache
  // takes no more than that many beams can need.
  uint32_t max_beams = 128;
  uint64_t max_cache_bytes = 1u << 30;
  // Fusion mode of groups that do not generate; groups that generate are always fused.
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;
};

class Group {
 public:
  virtual ~Group() = default;

  // Reserves the slabs and the workspace and prepares the device's GEMMs, so that serving creates
  // nothing. `device` outlives the group. Errors: kUnsupported (unknown family),
  // kInvalidArgument (options that cannot hold one request), kResourceExhausted.
  static Result<std::unique_ptr<Group>> create(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               const GroupOptions& options);

  virtual const model::BackboneSpec& spec() const noexcept = 0;
  virtual const GroupOptions& options() const noexcept = 0;

  // Loads a Hugging Face directory into a free slot, packs its weights on this thread, and returns
  // the slot. Changes nothing on error. Errors: kInvalidArgument (does not fit the group),
  // kCorrupt, kNotFound, kUnsupported, kResourceExhausted (no free slot, no memory).
  virtual Result<uint32_t> admit(const std::string& directory, const model::Progress& progress) = 0;
  // REQUIRES: the slot is admitted, and no current or later segment names it.
  virtual void release(uint32_t slot) = 0;
  // Returns the model in a slot; nullptr: the slot is free. Lock-free.
  virtual const model::TenantModel* model(uint32_t slot) const noexcept = 0;

  // The GEMMs of one pass, and of one step, for profiling; empty: nothing to profile.
  virtual std::vector<backbone::GemmUse> gemms() const { return {}; }
  // Sets the measured GEMM costs, from which later passes choose how GEMMs share the device. Any
  // thread.
  virtual void set_costs(std::shared_ptr<const plan::CostTables>) {}
  // Returns the GEMM modes chosen for a pass or step over `ranges`, valid until the next call. The
  // executor's thread.
  virtual kernels::GemmModes gemm_modes(std::span<const kernels::RowRange>) noexcept { return {}; }

  // Limits that the stream given to begin() must support; a piece holds at least one id.
  device::StreamLimits stream_limits() const noexcept;

  // Number of graph buckets that small batches are padded to (graph_buckets.h); 0: the device uses
  // none.
  virtual size_t num_buckets() const noexcept { return 0; }
  // Captures a bucket's graph ahead, so that its first batch is already a replay. Runs no kernels
  // and needs no tenant. The executor's thread. Errors: those of Stream::warm_up.
  virtual Status warm_up(device::Stream&, size_t) noexcept { return {}; }

  // The decoder that GenerationExecutor runs; nullptr: the group does not generate and uses
  // begin().
  virtual backbone::Decoder* decoder() noexcept { return nullptr; }
  virtual uint32_t num_kv_blocks() const noexcept { return 0; }
  // The graph buckets of the decoder's sources and steps. REQUIRES: decoder().
  virtual const GenerationBuckets& generation_buckets() const noexcept;
  // The slots' weights.
  virtual model::WeightView weights() const noexcept { return {}; }

  virtual uint32_t num_tenants() const noexcept = 0;
  virtual uint64_t weight_bytes() const noexcept = 0;  // of all tenants
  virtual uint64_t workspace_bytes() const noexcept = 0;

  // Most batches between begin() and finish(). The caller chooses a batch's place among them and
  // passes the same one to both.
  static constexpr uint32_t kMaxInFlight = device::Stream::kMaxPending;

  // Lays a batch out and launches it after the batches that began before. Its results are complete
  // once the stream has executed these launches. Allocates only the results. REQUIRES: at most
  // options().max_requests segments and max_tokens tokens; always the same stream.
  virtual void begin(device::Stream& stream, Batch& batch, uint32_t flight_index) noexcept = 0;
  // Gives each segment a result, or a status that concerns it alone (malformed ids, too long, a
  // kind that its model has no head for). `computed`: the stream's status of the launches. If the
  // device had no memory for them, every segment gets kOverloaded. Errors: a device fault; every
  // segment then gets kDeviceFailed. REQUIRES: batches finish in the order of begin().
  virtual Status finish(Batch& batch, uint32_t flight_index, Status computed) noexcept = 0;

  // Runs one batch from beginning to end.
  Status forward(device::Stream& stream, Batch& batch) noexcept {
    begin(stream, batch, 0);
    return finish(batch, 0, stream.synchronize());
  }
};

// Returns the kind that a model answers with when asked for ResultKind::kDefault.
wire::ResultKind default_result_kind(const model::HeadSpec& head) noexcept;
// Returns true if the model has a head for `kind`. Always true for kDefault.
bool supports(const model::HeadSpec& head, wire::ResultKind kind) noexcept;

}  // namespace itif::runtime
