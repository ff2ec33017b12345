// The settings of a PEFT adapter: adapter_config.json. Only LoRA is supported. Settings that would
// change the computation in another way are refused by name, unknown ones too, unless they are
// null, false or empty. Null is refused where PEFT has another default.
// Source: peft 0.21, LoraConfig; Hu et al., "LoRA", 2021; Kalajdzievski, "rsLoRA", 2023; Liu et
// al., "DoRA", 2024.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace itif::model {

// More would exceed the hidden size of most models.
inline constexpr uint32_t kMaxAdapterRank = 1024;

// Names of modules, and the value of those that match. A name matches its module and those that
// end with it after a dot. As in PEFT, "." stands for any character, and a first "^" for the
// beginning of the module's name.
template <class T>
using ModulePatterns = std::vector<std::pair<std::string, T>>;

struct AdapterConfig {
  std::string task;  // "SEQ_CLS"; empty: not given
  uint32_t rank = 0;
  double alpha = 0;
  ModulePatterns<uint32_t> ranks;
  ModulePatterns<double> alphas;
  bool is_rank_stabilized = false;  // rsLoRA: scale is alpha / √rank, not alpha / rank
  bool has_magnitudes = false;      // DoRA: rows of the changed weight have trained lengths
  bool saves_biases = false;        // the file may hold biases, which replace the base's
  bool saves_all_biases = false;    // and must hold those of all modules
  // Names of the changed modules; empty: an expression that is not evaluated here.
  std::vector<std::string> targets;
  // Modules whose whole tensors the file holds.
  std::vector<std::string> saved_modules;

  // Return the settings of a module. Errors: kUnsupported, several patterns match and differ.
  Result<uint32_t> rank_of(std::string_view module, const std::string& origin) const;
  Result<double> scale_of(std::string_view module, uint32_t rank, const std::string& origin) const;
};

// `origin` names the file in errors. Errors: kUnsupported (a kind of adapter or a setting that is
// not implemented, by name), kInvalidArgument (a field missing, of the wrong type or out of range).
Result<AdapterConfig> parse_adapter_config(const nlohmann::json& config, const std::string& origin);

}  // namespace itif::model
