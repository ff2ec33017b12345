#include "model/adapter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::model {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr std::string_view kMagnitudes[] = {".lora_magnitude_vector.weight",
                                            ".lora_magnitude_vector"};
// PEFT wraps a changed module: its own parameters are then in base_layer.
constexpr std::string_view kWrapped = ".base_layer.";

std::string shown_name(std::string_view name) {
  return json_file::shown(nlohmann::json(std::string(name)));
}

// Removes `suffix` from the end of `text`. Returns false if it is not there.
bool remove_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

Status check_finite(const std::vector<float>& values, const std::string& path,
                    const std::string& tensor) {
  const auto wrong =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{}: tensor \"{}\": element {} is {}, and every weight must be finite: "
                          "the adapter is damaged",
                          path, tensor, wrong - values.begin(), *wrong));
}

}  // namespace

bool Adapter::is_in(const std::string& directory) {
  return ::access((directory + "/" + kConfigFile).c_str(), F_OK) == 0;
}

Result<Adapter> Adapter::open(const std::string& directory) {
  const std::string origin = directory + "/" + kConfigFile;
  ITIF_ASSIGN(const nlohmann::json config, json_file::read_json_file(origin));
  ITIF_ASSIGN(AdapterConfig parsed, parse_adapter_config(config, origin));
  if (::access((directory + "/" + kWeightsFile).c_str(), F_OK) != 0 &&
      ::access((directory + "/adapter_model.bin").c_str(), F_OK) == 0)
    return fail(Code::kUnsupported,
                fmt::format("{}: expected {}, found adapter_model.bin: save the adapter again with "
                            "save_pretrained(..., safe_serialization=True)",
                            directory, kWeightsFile));
  ITIF_ASSIGN(Checkpoint checkpoint, Checkpoint::open_file(directory, kWeightsFile));
  Adapter adapter(std::move(checkpoint));
  adapter.directory_ = directory;
  adapter.config_ = std::move(parsed);
  ITIF_TRY(adapter.sort_tensors());
  ITIF_TRY(adapter.check_targets());
  return adapter;
}

// Every tensor must be known: one that is left out would change the results.
Status Adapter::sort_tensors() {
  for (const std::string& tensor : checkpoint_.names()) {
    std::string_view name = tensor;
    if (!name.starts_with(kPrefix))
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor {}: expected a name that begins with {}", path(),
                              shown_name(tensor), kPrefix));
    name.remove_prefix(kPrefix.size());
    const auto unsupported = [&](const char* what) {
      return fail(Code::kUnsupported,
                  fmt::format("{}: tensor {}: {}", path(), shown_name(tensor), what));
    };
    if (remove_suffix(name, kA)) {
      ITIF_TRY(add_module(std::string(name), tensor));
      continue;
    }
    if (remove_suffix(name, kB)) {
      const std::string a = fmt::format("{}{}{}", kPrefix, name, kA);
      if (checkpoint_.find(a) != nullptr) continue;
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor \"{}\": expected it beside {}, found none", path(), a,
                              shown_name(tensor)));
    }
    if (remove_suffix(name, kMagnitudes[0]) || remove_suffix(name, kMagnitudes[1])) {
      if (config_.has_magnitudes) continue;
      return unsupported("a magnitude is only supported with 'use_dora'");
    }
    if (name.find(".lora_embedding_") != std::string_view::npos)
      return unsupported("adapters of embeddings are not supported");
    if (name.ends_with(".lora_B.bias"))
      return unsupported("biases of lora_B are not supported ('lora_bias')");
    if (name.find("lora_") != std::string_view::npos)
      return unsupported("adapters with this tensor are not supported");
    std::string own(name);
    if (const size_t at = own.find(kWrapped); at != std::string::npos)
      own.erase(at, kWrapped.size() - 1);
    if (!is_of_saved_module(own) && !(config_.saves_biases && own.ends_with(".bias")))
      return fail(
          Code::kInvalidArgument,
          fmt::format("{}: tensor {}: expected one of a module in 'modules_to_save'{}", path(),
                      shown_name(tensor), config_.saves_biases ? ", or a bias" : ""));
    if (const auto first = std::ranges::find(saved_, own); first != saved_.end())
      return fail(
          Code::kInvalidArgument,
          fmt::format("{}: tensor {} is there twice, as {} and as {}: keep one", path(),
                      shown_name(own),
                      shown_name(saved_tensors_[static_cast<size_t>(first - saved_.begin())]),
                      shown_name(tensor)));
    saved_.push_back(std::move(own));
    saved_tensors_.push_back(tensor);
  }
  if (modules_.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: expected tensors named …{}, found none", path(), kA));
  return {};
}

// As in PEFT, a name in modules_to_save stands for modules that end with it.
bool Adapter::is_of_saved_module(std::string_view name) const {
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
    for (const std::string& module : config_.saved_modules)
      if (name.substr(0, dot).ends_with(module)) return true;
  return false;
}

// A module must have exactly a name of modules_to_save: other programs than PEFT do not save those
// that only end with it, such as "pre_classifier". With bias "lora_only", PEFT looks for biases of
// wrapped modules under their old names, and may save none.
bool Adapter::must_save(std::string_view name) const {
  if (config_.saves_all_biases && name.ends_with(".bias")) return true;
  const std::string path = fmt::format(".{}", name);
  return std::ranges::any_of(config_.saved_modules, [&](const std::string& module) {
    return path.find(fmt::format(".{}.", module)) != std::string::npos;
  });
}

Status Adapter::add_module(const std::string& name, const std::string& tensor) {
  AdapterModule module{
      .name = name, .a = tensor, .b = fmt::format("{}{}{}", kPrefix, name, kB), .magnitudes = {}};
  const std::string origin = directory_ + "/" + kConfigFile;
  ITIF_ASSIGN(module.rank, config_.rank_of(name, origin));
  ITIF_ASSIGN(module.scale, config_.scale_of(name, module.rank, origin));
  const TensorEntry* b = checkpoint_.find(module.b);
  if (b == nullptr)
    return fail(Code::kInvalidArgument, fmt::format("{}: tensor \"{}\": expected it beside {}, "
                                                    "found none",
                                                    path(), module.b, shown_name(tensor)));
  const std::vector<uint64_t>& of_a = checkpoint_.find(tensor)->dims;
  if (of_a.size() < 2 || of_a[0] != module.rank)
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: tensor \"{}\": expected [{}, …], the module's rank in {}, found {}",
                    path(), tensor, module.rank, kConfigFile, shape_text(of_a)));
  if (b->dims.size() < 2 || b->dims[1] != module.rank)
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: tensor \"{}\": expected […, {}], the module's rank in {}, found {}",
                    path(), module.b, module.rank, kConfigFile, shape_text(b->dims)));
  if (config_.has_magnitudes) {
    for (const std::string_view suffix : kMagnitudes) {
      std::string full = fmt::format("{}{}{}", kPrefix, name, suffix);
      if (checkpoint_.find(full) == nullptr) continue;
      if (!module.magnitudes.empty())
        return fail(
            Code::kInvalidArgument,
            fmt::format("{}: the magnitude of module {} is there twice, as {} and as {}: "
                        "keep one",
                        path(), shown_name(name), shown_name(module.magnitudes), shown_name(full)));
      module.magnitudes = std::move(full);
    }
    if (module.magnitudes.empty())
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor \"{}{}{}\": expected it beside {}, found none", path(),
                              kPrefix, name, kMagnitudes[1], shown_name(tensor)));
  }
  modules_.push_back(std::move(module));
  return {};
}

// PEFT leaves out tensors of other modules, and makes up those that the file lacks.
Status Adapter::check_targets() const {
  if (config_.targets.empty()) return {};
  const auto is_of = [](std::string_view module, std::string_view target) {
    return module == target || (module.size() > target.size() && module.ends_with(target) &&
                                module[module.size() - target.size() - 1] == '.');
  };
  for (const AdapterModule& module : modules_)
    if (std::ranges::none_of(config_.targets,
                             [&](const auto& target) { return is_of(module.name, target); }))
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor {}: expected one of a module in 'target_modules' of {}",
                              path(), shown_name(module.a), kConfigFile));
  for (const std::string& target : config_.targets)
    if (std::ranges::none_of(modules_,
                             [&](const auto& module) { return is_of(module.name, target); }))
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: expected tensors of a module {}, which 'target_modules' of {} "
                              "names, found none",
                              path(), shown_name(target), kConfigFile));
  return {};
}

Result<HostTensor> Adapter::read_saved(const std::string& name) const {
  const auto at = std::ranges::find(saved_, name) - saved_.begin();
  return checkpoint_.read_whole(saved_tensors_[static_cast<size_t>(at)]);
}

// A convolution's A has its window's dimensions, and its B ends with two of size 1.
Result<LowRankMatrices> Adapter::read(const AdapterModule& module, uint64_t n, uint64_t k) const {
  LowRankMatrices matrices;
  const auto read = [&](const std::string& name, uint64_t rows, uint64_t columns,
                        std::vector<float>& to) -> Status {
    ITIF_ASSIGN(const HostTensor tensor, checkpoint_.read_whole(name));
    const Shape& shape = tensor.view.shape;
    if (shape[0] != rows || shape.elements() != rows * columns)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor \"{}\": expected [{}, {}], found {}", path(), name, rows,
                              columns, shape.text()));
    to.resize(shape.elements());
    tensor.view.to_f32(to.data());
    return check_finite(to, path(), name);
  };
  ITIF_TRY(read(module.a, module.rank, k, matrices.a));
  ITIF_TRY(read(module.b, n, module.rank, matrices.b));
  return matrices;
}

Status Adapter::merge(const AdapterModule& module, const std::string& tensor, const Shape& shape,
                      Checkpoint& base) const {
  ITIF_ASSIGN(const HostTensor weight, base.read(tensor, shape));
  const uint64_t n = shape[0], k = shape.elements() / n;
  ITIF_ASSIGN(const LowRankMatrices matrices, read(module, n, k));
  std::vector<float> magnitudes;
  if (!module.magnitudes.empty()) {
    ITIF_ASSIGN(const HostTensor lengths, checkpoint_.read_whole(module.magnitudes));
    if (lengths.view.shape.elements() != n)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: tensor \"{}\": expected [{}], found {}", path(),
                              module.magnitudes, n, lengths.view.shape.text()));
    magnitudes.resize(n);
    lengths.view.to_f32(magnitudes.data());
    ITIF_TRY(check_finite(magnitudes, path(), module.magnitudes));
  }
  HostTensor merged;
  merged.data = std::make_unique_for_overwrite<std::byte[]>(n * k * sizeof(float));
  auto* values = reinterpret_cast<float*>(merged.data.get());
  weight.view.to_f32(values);
  std::vector<double> update(k);
  for (uint64_t row = 0; row < n; ++row) {
    std::ranges::fill(update, 0.0);
    for (uint32_t r = 0; r < module.rank; ++r) {
      const double factor = matrices.b[row * module.rank + r] * module.scale;
      for (uint64_t i = 0; i < k; ++i) update[i] += factor * matrices.a[r * k + i];
    }
    float* of_row = values + row * k;
    double squares = 0;
    for (uint64_t i = 0; i < k; ++i) {
      update[i] += of_row[i];
      squares += update[i] * update[i];
    }
    const double length =
        magnitudes.empty() ? 1.0 : static_cast<double>(magnitudes[row]) / std::sqrt(squares);
    for (uint64_t i = 0; i < k; ++i) of_row[i] = static_cast<float>(update[i] * length);
  }
  merged.view = {merged.data.get(), DType::kF32, shape};
  base.put(tensor, std::move(merged), path());
  return {};
}

}  // namespace itif::model
