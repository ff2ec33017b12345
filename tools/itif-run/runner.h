// Models in this process: one group on one device, with no network, no control and no scheduler between
// a caller and the forward pass. For comparing results with other programs.
//
// One owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "runtime/group.h"

namespace itif::run {

struct RunnerOptions {
  std::vector<std::string> models;  // directories of one backbone; the first makes the group
  device::DeviceOptions device;
  uint32_t max_tokens = 4096;  // of one batch
  std::string fidelity = "fused";
};

// Ids (token_types empty: all 0), a text, or an image.
struct Input {
  uint32_t model = 0;  // index into RunnerOptions::models
  std::vector<uint32_t> ids;
  std::vector<uint8_t> token_types;
  std::optional<std::string> text;
  std::optional<std::string> pair;
  bool truncate = false;         // a text that is too long
  std::vector<std::byte> image;  // a payload as on the wire: prefix and pixels
  wire::PayloadKind image_kind = wire::PayloadKind::kImageU8;
  wire::ResultKind kind = wire::ResultKind::kDefault;
};

struct Output {
  wire::StatusCode status = wire::StatusCode::kOk;
  std::string detail;  // any other status
  wire::ResultKind kind = wire::ResultKind::kDefault;
  std::vector<uint32_t> ids;  // what the model saw
  std::vector<uint8_t> token_types;
  std::vector<std::byte> pixels;  // what the model saw: u8 of its own size, or f32
  std::vector<std::byte> result;
  uint32_t rows = 0;  // of the result
};

class Runner {
 public:
  // Errors: as open_device, Group::create and Group::admit.
  static Result<std::unique_ptr<Runner>> open(const RunnerOptions& options);

  // Runs `inputs` as one batch `repeats` times, one every `interval_ns` (0: back to back); the outputs
  // are the last run's. `us` gets the time of each run. Errors: kInvalidArgument, more inputs or tokens than a batch holds, or a model index
  // out of range; kInternal, a device fault.
  Result<std::vector<Output>> forward(const std::vector<Input>& inputs, uint32_t repeats,
                                      uint64_t interval_ns, std::vector<double>& us);

  const device::DeviceInfo& device_info() const { return device_->info(); }
  const model::TenantModel& model(uint32_t index) const { return *group_->model(slots_[index]); }

 private:
  Runner() = default;
  void tokenize(const Input& input, Output& output) const;
  void prepare_image(const Input& input, Output& output) const;
  // A decoder's whole sequences: `order` says which inputs run, in which order.
  Status generate(const std::vector<Input>& inputs, const std::vector<size_t>& order,
                  std::vector<Output>& outputs, std::vector<double>& us);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<runtime::Group> group_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<uint32_t> slots_;  // by model
};

}  // namespace itif::run
