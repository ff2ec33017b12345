// A group: one backbone with the concatenated weights of its tenants, and the forward pass that
// serves requests of all of them in one batch.
//
// There are two kinds. An encoder group answers with one forward pass (batch/encoder_group.h). A
// decoder group generates token by token (generate/decoder_group.h). make_group.h chooses the kind;
// each kind makes the executor that runs its requests.
//
// Threads: any thread calls admit() and release(), several at the same time. The executor's thread
// calls warm_up() and what the kind adds. All may call model(). They share only the slot table with
// the executor, through atomic pointers: admit() fills a slot before it publishes it, and release()
// is called when no current or later segment names the slot. The executor waits for no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "backbone/open_model.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "model/model_files.h"
#include "model/tenant_model.h"
#include "model/weight_pool.h"
#include "plan/cost_tables.h"
#include "runtime/load_memory.h"
#include "runtime/request_executor.h"

namespace itif::runtime {

// Options of both kinds; each kind adds its own.
struct GroupOptions {
  uint32_t max_tokens = 4096;   // of one batch
  uint32_t max_requests = 256;  // of one batch
  uint32_t max_tenants = 64;    // slots
  // Stores equal weights of tenants once, and multiplies rows by them in one GEMM. False: each
  // tenant has its own copy and its own GEMMs, for comparison and for simulations, whose models all
  // have the same files.
  bool shares_weights = true;
  // The device's, which all its groups use and which outlives them. Null: the group has its own.
  LoadMemory* load_memory = nullptr;
  // The pool through which the device's groups share equal weights. It outlives them. Null: the
  // group has its own. Unused without shares_weights.
  model::WeightPool* weight_pool = nullptr;
};

class Group {
 public:
  virtual ~Group() = default;

  virtual const model::BackboneSpec& spec() const noexcept = 0;
  virtual const GroupOptions& options() const noexcept = 0;

  // Loads a Hugging Face directory, or an adapter and its base, into a free slot, packs its weights
  // on this thread, and returns the slot. Changes nothing on error. Errors: kInvalidArgument (does
  // not fit the group), kCorrupt, kNotFound, kUnsupported, kResourceExhausted (no free slot, no
  // memory).
  virtual Result<uint32_t> admit(const model::ModelFiles& files,
                                 const model::Progress& progress) = 0;
  // As admit(), for a model that is open already, which it consumes. By default it is opened again.
  virtual Result<uint32_t> admit_opened(backbone::OpenedModel model,
                                        const model::Progress& progress) {
    return admit(model.files, progress);
  }
  // REQUIRES: the slot is admitted, and no current or later segment names it.
  virtual void release(uint32_t slot) = 0;
  // Returns the model in a slot; nullptr: the slot is free. Lock-free.
  virtual const model::TenantModel* model(uint32_t slot) const noexcept = 0;
  // Returns the place of a tenant's weight slot in a batch: slots with many equal weights are
  // neighbours (model/equal_weights.h). It may change when tenants come and go. Lock-free.
  virtual uint32_t weight_order(uint32_t weight_slot) const noexcept { return weight_slot; }

  // Makes the executor that runs the group's requests on `stream`. The group, `stream` and `clock`
  // outlive it. Errors: kInvalidArgument (scheduler, limits).
  virtual Result<std::unique_ptr<RequestExecutor>> make_executor(
      device::Stream& stream, const Clock& clock, const ExecutorOptions& options) = 0;
  // Limits that the executor's stream must support; a piece holds at least one id.
  virtual device::StreamLimits stream_limits() const noexcept = 0;

  // Returns true if preparing a batch while another computes pays on the host, given a CPU that the
  // device's threads do not use.
  virtual bool overlaps_on_host() const noexcept = 0;

  // The GEMMs of one pass, and of one step, for profiling; empty: nothing to profile.
  virtual std::vector<backbone::GemmUse> gemms() const { return {}; }
  // Queues a pass over requests of one tenant with any tokens, for profiling.
  using SamplePass =
      std::function<void(device::Stream&, uint32_t num_requests, uint32_t num_tokens)>;
  struct ProfiledWork {
    uint32_t max_step_rows = 0;     // 0: the group takes no steps
    bool has_one_length = false;    // requests have spec().max_tokens() tokens, as images do
    uint32_t max_pass_tenants = 0;  // 0: any number; see cost/pass_limits.h
    // Call it on the executor's thread, within the group's limits. Destroy it on the control
    // thread, before a tenant is admitted or released. Null: only GEMMs are measured.
    SamplePass launch_pass = {};
  };
  // Returns what profiling measures and how large it may be.
  virtual ProfiledWork profiled_work() { return {}; }
  // Sets the measured GEMM costs, from which later passes choose how GEMMs share the device. Any
  // thread.
  virtual void set_costs(std::shared_ptr<const plan::CostTables>) {}

  // Number of graph buckets that small batches are padded to (graph_buckets.h); 0: the device uses
  // none.
  virtual size_t num_buckets() const noexcept { return 0; }
  // Captures a bucket's graph ahead, so that its first batch is already a replay. Runs no kernels
  // and needs no tenant. The executor's thread. Errors: those of Stream::warm_up.
  virtual Status warm_up(device::Stream&, size_t) noexcept { return {}; }

  virtual uint32_t num_tenants() const noexcept = 0;
  // Device memory of all tenants, also of models that are being loaded. Shared memory counts once:
  // if groups share it, in the one that has held it longest.
  virtual uint64_t weight_bytes() const noexcept = 0;
  virtual uint64_t workspace_bytes() const noexcept = 0;
  // Returns the part of workspace_bytes() that is a K/V cache, which max_tokens does not bound.
  virtual uint64_t cache_bytes() const noexcept { return 0; }
};

}  // namespace itif::runtime
