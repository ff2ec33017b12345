// A group: one backbone with the concatenated weights of its tenants, and the forward pass that
// serves requests of all of them in one batch.
//
// Threads: admit() and release() belong to control, one call at a time; begin() and finish() to the group's
// executor; model() may be called by both. They meet only in the slot table, by atomic pointers:
// admit() fills a slot before it publishes it, and release() is called when no segment in flight or
// to come names the slot. Neither ever waits for the other.
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

struct GenerationForms;

// A request's place in a batch. The upper half is the caller's, the lower is written by finish().
struct Segment {
  uint32_t slot = 0;
  uint32_t num_tokens = 0;
  uint32_t num_rows = 0;  // that it takes in the batch, padding behind its tokens; 0: num_tokens
  // Neighbours of a tenant share a GEMM call within one mini-batch of the plan.
  uint32_t mini_batch = 0;
  // The token ids where they arrived (packet buffers, or a tokenizer's output as u32): nothing is
  // copied on the way to the device. Here first_row counts from the segment's own first token; the
  // pieces are ascending and cover [0, num_tokens) without gap.
  std::span<const kernels::IdPiece> pieces;
  std::span<const uint8_t> token_types;  // host, [num_tokens]; empty: all 0
  // Instead of pieces where the group takes images: the pixels where they arrived, of the model's size
  // (num_tokens: all positions of the model). first_row, scale and shift are begin()'s.
  kernels::ImagePixels image;
  wire::ResultKind kind = wire::ResultKind::kDefault;

  wire::StatusCode status = wire::StatusCode::kOk;
  wire::ResultKind kind_out = wire::ResultKind::kDefault;
  request::ResultBuffer result;  // malloc; the caller's from now on. Set iff status is kOk
  uint32_t result_rows = 0;      // its first dimension: tokens, entries of kClasses, or 1
  const char* detail = "";       // any other status: a literal, one sentence
};

// Host memory: read by begin(), written when finish() returns, and not to be touched between the two.
struct Batch {
  // In any order.
  std::span<Segment> segments;
  uint32_t num_padding_rows =
      0;  // begin()'s: computed beside those that segments take, for the batch's form
};

struct GroupOptions {
  uint32_t max_tokens = 4096;   // of one batch
  uint32_t max_requests = 256;  // of one batch
  uint32_t max_tenants = 64;    // slots
  // Of groups that generate: live beams of one step, and the K/V cache's memory, of which no more is
  // taken than so many beams can need.
  uint32_t max_beams = 128;
  uint64_t max_cache_bytes = 1u << 30;
  // Of groups that do not generate; those that do are fused.
  backbone::Fidelity fidelity = backbone::Fidelity::kFused;
};

class Group {
 public:
  virtual ~Group() = default;

  // Reserves the slabs and the workspace and prepares the device's GEMMs, so that nothing is
  // created while serving. `device` outlives the group. Errors: kUnsupported (no such family),
  // kInvalidArgument (options that cannot hold one request), kResourceExhausted.
  static Result<std::unique_ptr<Group>> create(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               const GroupOptions& options);

  virtual const model::BackboneSpec& spec() const noexcept = 0;
  virtual const GroupOptions& options() const noexcept = 0;

  // Loads a Hugging Face directory into a free slot, packs its weights on this thread, and returns
  // the slot. On error nothing has changed. Errors: kInvalidArgument (does not fit the group),
  // kCorrupt, kNotFound, kUnsupported, kResourceExhausted (no free slot, no memory).
  virtual Result<uint32_t> admit(const std::string& directory, const model::Progress& progress) = 0;
  // REQUIRES: the slot is admitted, and no segment in flight or to come names it.
  virtual void release(uint32_t slot) = 0;
  // The model in a slot; nullptr: the slot is free. Lock-free.
  virtual const model::TenantModel* model(uint32_t slot) const noexcept = 0;

  // The GEMMs of one pass, and of one step, for profiling; empty: nothing to profile.
  virtual std::vector<backbone::GemmUse> gemms() const { return {}; }
  // What they were measured to cost: how the next passes' GEMMs share the device. Any thread.
  virtual void set_costs(std::shared_ptr<const plan::CostTables>) {}
  // By these costs, for a pass or step over `ranges`; valid until the next call. The executor's thread.
  virtual kernels::GemmModes gemm_modes(std::span<const kernels::RowRange>) noexcept { return {}; }

  // What the stream given to begin() must be made for: a piece holds at least one id.
  device::StreamLimits stream_limits() const noexcept;

  // The forms that small batches are padded to where the device gains by it (batch_forms.h); 0: none are.
  virtual size_t num_forms() const noexcept { return 0; }
  // Has the stream made ready for batches of a form: the first of them is one launch then. Runs nothing, and needs no
  // tenant. The executor's thread. Errors: those of Stream::make_ready.
  virtual Status make_ready(device::Stream&, size_t) noexcept { return {}; }

  // What a group that generates is run by (GenerationExecutor); nullptr: begin() is.
  virtual backbone::Decoder* decoder() noexcept { return nullptr; }
  virtual uint32_t num_kv_blocks() const noexcept { return 0; }
  // What its sources and steps are padded to. REQUIRES: decoder().
  virtual const GenerationForms& generation_forms() const noexcept;
  // The slots' weights.
  virtual model::WeightView weights() const noexcept { return {}; }

  virtual uint32_t num_tenants() const noexcept = 0;
  virtual uint64_t weight_bytes() const noexcept = 0;  // of all tenants
  virtual uint64_t workspace_bytes() const noexcept = 0;

  // Batches that may have begun and not finished. Each has a place among them, which is the caller's to
  // choose: begin() and finish() of a batch name the same one.
  static constexpr uint32_t kMaxInFlight = device::Stream::kMaxPending;

  // Lays a batch out and launches it behind those that began before; its results are there when the stream
  // has reached what was launched. Allocates nothing but the results. REQUIRES: at most
  // options().max_requests segments and max_tokens tokens; always the same stream.
  virtual void begin(device::Stream& stream, Batch& batch, uint32_t place) noexcept = 0;
  // Each segment ends with a result, or with a status that concerns it alone (malformed ids, too long, a
  // kind that its model has no head for). `computed`: what the stream said of the launches; where the device had no
  // memory for them, every segment has kOverloaded. Errors: a device fault; every segment then has kDeviceFailed.
  // REQUIRES: in the order of begin().
  virtual Status finish(Batch& batch, uint32_t place, Status computed) noexcept = 0;

  // One batch, from beginning to end.
  Status forward(device::Stream& stream, Batch& batch) noexcept {
    begin(stream, batch, 0);
    return finish(batch, 0, stream.synchronize());
  }
};

// What a model answers when asked for ResultKind::kDefault.
wire::ResultKind default_result_kind(const model::HeadSpec& head) noexcept;
// Whether it has a head for `kind`. kDefault: always.
bool supports(const model::HeadSpec& head, wire::ResultKind kind) noexcept;

}  // namespace itif::runtime
