// Runs models in this process: one group on one device, without network, control or scheduler. For
// comparing results with other programs.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "plan/planner.h"
#include "runtime/batch/encoder_group.h"

namespace itif::run {

struct RunnerOptions {
  std::vector<std::string> models;  // directories with the same backbone; the first defines it
  std::string base = {};            // the base model of those that are adapters
  device::DeviceOptions device;
  uint32_t max_tokens = 4096;  // per batch
  std::string fusion_mode = "fused";
  std::string planner = "packed";  // of sources, if the model generates
};

// Token ids, a text, or an image.
struct Input {
  std::string line;    // as read
  uint32_t model = 0;  // index into RunnerOptions::models
  std::vector<uint32_t> ids;
  std::vector<uint8_t> token_types;  // empty: all 0
  std::optional<std::string> text;
  std::optional<std::string> pair;
  bool truncate = false;         // truncates a text that is too long
  std::vector<std::byte> image;  // a payload as on the wire: prefix and pixels
  wire::PayloadKind image_kind = wire::PayloadKind::kImageU8;
  wire::ResultKind kind = wire::ResultKind::kDefault;
};

struct Output {
  wire::StatusCode status = wire::StatusCode::kOk;
  std::string detail;  // explains any other status
  wire::ResultKind kind = wire::ResultKind::kDefault;
  std::vector<uint32_t> ids;  // the model's input
  std::vector<uint8_t> token_types;
  std::vector<std::byte> pixels;  // the model's input: u8, resized to its size, or f32
  std::vector<std::byte> result;
  uint32_t rows = 0;  // of the result
};

class Runner {
 public:
  // Measures the group's costs first if the planner needs them. Errors: as open_device, make_group,
  // Group::admit and make_planner.
  static Result<std::unique_ptr<Runner>> open(const RunnerOptions& options);

  // Runs `inputs` as one batch `repeats` times, every `interval_ns` (0: back to back). Returns the
  // outputs of the last run; adds the time of each run to `us`. Errors: kInvalidArgument, more
  // inputs or tokens than a batch holds, or a model index out of range; kInternal, a device fault.
  Result<std::vector<Output>> forward(const std::vector<Input>& inputs, uint32_t repeats,
                                      uint64_t interval_ns, std::vector<double>& us);

  const device::DeviceInfo& device_info() const { return device_->info(); }
  const model::TenantModel& model(uint32_t index) const { return *group_->model(slots_[index]); }

 private:
  Runner() = default;
  Status make_planner(const std::string& name);
  void tokenize(const Input& input, Output& output) const;
  void prepare_image(const Input& input, Output& output) const;
  // Generates the whole sequences of a decoder. order: indices of the inputs to run.
  Status generate(const std::vector<Input>& inputs, const std::vector<size_t>& order,
                  std::vector<Output>& outputs, std::vector<double>& us);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<runtime::Group> group_;
  runtime::EncoderGroup* encoder_ = nullptr;  // group_; nullptr: it generates
  std::unique_ptr<device::Stream> stream_;
  std::vector<uint32_t> slots_;             // by model
  std::unique_ptr<plan::Planner> planner_;  // encoders only
  std::string source_planner_;              // models that generate only
};

}  // namespace itif::run
