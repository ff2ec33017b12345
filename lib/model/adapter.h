// A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors. It changes
// modules of a base model: W becomes W + scale · B · A. It may also hold whole tensors, such as a
// head, which replace the base's.
//
// Names of tensors: "base_model.model.<module>.lora_A.weight", "….lora_B.weight", with DoRA
// "….lora_magnitude_vector"; "base_model.model.<tensor>" for whole tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/adapter_config.h"
#include "model/checkpoint.h"

namespace itif::model {

struct AdapterModule {
  std::string name;        // in the base model: "bert.encoder.layer.0.attention.self.query"
  std::string a, b;        // tensors: [rank, k] and [n, rank]
  std::string magnitudes;  // tensor: [n]; empty: the adapter is no DoRA
  uint32_t rank = 0;
  double scale = 0;
};

// A module's two matrices in f32.
struct LowRankMatrices {
  std::vector<float> a;  // [rank, k]
  std::vector<float> b;  // [n, rank], without the scale
};

class Adapter {
 public:
  static constexpr const char* kConfigFile = "adapter_config.json";
  static constexpr const char* kWeightsFile = "adapter_model.safetensors";
  // Returns true if the directory holds an adapter.
  static bool is_in(const std::string& directory);

  // Errors: those of parse_adapter_config; kNotFound, kPermission, kCorrupt (files);
  // kInvalidArgument (a tensor missing, twice, misshapen, or of no module); kUnsupported (a tensor
  // of a kind of adapter that is not implemented, by name).
  static Result<Adapter> open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const AdapterConfig& config() const { return config_; }
  const std::vector<AdapterModule>& modules() const { return modules_; }
  // The names, in the base model, of tensors that the adapter holds whole.
  const std::vector<std::string>& saved() const { return saved_; }
  // Returns true if the file must hold a tensor of that name in the base model, because
  // 'modules_to_save' or 'bias' say so.
  bool must_save(std::string_view name) const;

  // Reads a tensor of saved(). Errors: those of Checkpoint::read_whole.
  Result<HostTensor> read_saved(const std::string& name) const;
  // Reads a module's matrices for a weight of n rows and k columns. Errors: kInvalidArgument (other
  // shapes, a value that is not finite), those of Checkpoint::read_whole.
  Result<LowRankMatrices> read(const AdapterModule& module, uint64_t n, uint64_t k) const;
  // Adds a module's update to the weight `tensor` of `base`, of that shape, and keeps the sum in
  // `base`. With DoRA, scales the sum's rows to their trained lengths. Errors: those of read() and
  // Checkpoint::read.
  Status merge(const AdapterModule& module, const std::string& tensor, const Shape& shape,
               Checkpoint& base) const;
  // Errors: kCorrupt: a file has changed since it was opened.
  Status unchanged() const { return checkpoint_.unchanged(); }

 private:
  explicit Adapter(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  Status sort_tensors();
  Status add_module(const std::string& name, const std::string& tensor);
  Status check_targets() const;
  bool is_of_saved_module(std::string_view name) const;
  std::string path() const { return directory_ + "/" + kWeightsFile; }

  std::string directory_;
  Checkpoint checkpoint_;
  AdapterConfig config_;
  std::vector<AdapterModule> modules_;
  std::vector<std::string> saved_;
  std::vector<std::string> saved_tensors_;  // in the file, of each of saved_
};

}  // namespace itif::model
