// A group whose requests end with one forward pass: encoders of texts and images. GroupExecutor
// runs its batches.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/batch/batch.h"
#include "runtime/group.h"

namespace itif::runtime {

class EncoderGroup : public Group {
 public:
  // Reserves the slabs and the workspace and prepares the device's GEMMs, so that serving creates
  // nothing. `device` outlives the group. REQUIRES: the family does not generate. Errors:
  // kUnsupported (unknown family), kInvalidArgument (options that cannot hold one request),
  // kResourceExhausted.
  static Result<std::unique_ptr<EncoderGroup>> create(device::Device& device,
                                                      const model::BackboneSpec& spec,
                                                      const GroupOptions& options);

  Result<std::unique_ptr<RequestExecutor>> make_executor(device::Stream& stream, const Clock& clock,
                                                         const ExecutorOptions& options) override;
  device::StreamLimits stream_limits() const noexcept override;

  // Maximum number of batches between begin() and finish(). The caller passes the same free
  // flight_index to both.
  static constexpr uint32_t kMaxInFlight = device::Stream::kMaxPending;

  // Lays a batch out and launches it after the batches that began before. Its results are complete
  // once the stream has executed these launches. Allocates only the results. REQUIRES: at most
  // options().max_requests segments and max_tokens tokens; always the same stream.
  virtual void begin(device::Stream& stream, Batch& batch, uint32_t flight_index) noexcept = 0;
  // Gives each request a result (malloc'ed, owned by the caller), or a status that concerns it
  // alone (malformed ids, too long, a kind that its model has no head for). `computed`: the
  // stream's status of the launches. If the device had no memory for them, every request gets
  // kOverloaded. Errors: a device fault; every request then gets kDeviceFailed. REQUIRES: batches
  // finish in the order of begin().
  virtual Status finish(Batch& batch, uint32_t flight_index, Status computed) noexcept = 0;

  // The most tenants of a pass; 0: any number. See cost/pass_tenants.h.
  virtual uint32_t max_pass_tenants() const noexcept { return 0; }

  // Runs one batch from beginning to end.
  Status forward(device::Stream& stream, Batch& batch) noexcept {
    begin(stream, batch, 0);
    return finish(batch, 0, stream.synchronize());
  }
};

}  // namespace itif::runtime
