#include "make_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/family.h"
#include "base/random.h"
#include "output_directory.h"
#include "safetensors_writer.h"

namespace itif::mkmodel {
namespace {

constexpr std::string_view kWeight = ".weight";

// A module that an adapter can change, by its name in a checkpoint with a head.
struct Module {
  std::string name;
  uint64_t n = 0;
  std::vector<uint64_t> input;  // dimensions of its weight after the first
};

std::vector<Module> modules_of(const backbone::Family& family, const model::BackboneSpec& spec) {
  std::vector<Module> modules;
  for (const model::WeightKind& kind : family.weight_kinds(spec)) {
    if (kind.storage != model::Storage::kMatrix) continue;
    for (const model::Source& source : kind.sources) {
      const std::string& tensor = source.names[std::min<size_t>(1, source.names.size() - 1)];
      const Shape& shape = kind.source_shape;
      modules.push_back({.name = tensor.substr(0, tensor.size() - kWeight.size()),
                         .n = shape[0],
                         .input = {shape.dims.begin() + 1, shape.dims.begin() + shape.rank}});
    }
  }
  return modules;
}

// The last parts of the names of query and value.
std::vector<std::string> query_and_value(const backbone::Family& family,
                                         const model::BackboneSpec& spec) {
  for (const model::WeightKind& kind : family.weight_kinds(spec)) {
    if (kind.storage != model::Storage::kMatrix || kind.sources.size() != 3) continue;
    std::vector<std::string> names;
    for (const size_t part : {0, 2}) {
      const std::string& tensor = kind.sources[part].names.front();
      const std::string module = tensor.substr(0, tensor.size() - kWeight.size());
      names.push_back(module.substr(module.rfind('.') + 1));
    }
    return names;
  }
  return {};
}

bool is_target(const std::string& module, const std::vector<std::string>& targets) {
  return std::ranges::any_of(targets, [&](const std::string& target) {
    return module == target || module.ends_with("." + target);
  });
}

// The tensors of the family's classifier, which PEFT saves whole.
Status add_classifier(const AdapterOptions& options, const backbone::Family& family,
                      const std::function<float()>& next, std::vector<TensorToWrite>& tensors) {
  const auto row = std::ranges::find(family.heads.architectures, model::HeadKind::kClassification,
                                     &model::Architecture::kind);
  if (row == family.heads.architectures.end())
    return fail(Code::kInvalidArgument, fmt::format("{} has no classifier", family.model_type));
  const uint64_t hidden = options.spec.hidden;
  const auto linear = [&](std::string_view module, uint64_t n) {
    tensors.push_back({fmt::format("base_model.model.{}.weight", module), {n, hidden}, next});
    tensors.push_back({fmt::format("base_model.model.{}.bias", module), {n}, next});
  };
  linear(row->classifier, options.num_labels);
  if (row->dense.starts_with("classifier.")) linear(row->dense, hidden);
  return {};
}

}  // namespace

Status make_adapter(const AdapterOptions& options, const std::string& directory) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(options.spec.family));
  const std::vector<std::string> targets =
      options.targets.empty() ? query_and_value(*family, options.spec) : options.targets;
  Random random(options.seed);
  const auto next = [&] { return static_cast<float>(random.normal()) * options.range; };
  std::vector<TensorToWrite> tensors;
  for (const Module& module : modules_of(*family, options.spec)) {
    if (!is_target(module.name, targets)) continue;
    std::vector<uint64_t> a = {options.rank}, b = {module.n, options.rank};
    a.insert(a.end(), module.input.begin(), module.input.end());
    b.resize(a.size(), 1);
    const std::string name = "base_model.model." + module.name;
    tensors.push_back({name + ".lora_A.weight", std::move(a), next});
    tensors.push_back({name + ".lora_B.weight", std::move(b), next});
  }
  if (tensors.empty())
    return fail(Code::kInvalidArgument, fmt::format("no module of {} is named {}",
                                                    family->model_type, fmt::join(targets, ", ")));
  if (options.num_labels > 0) ITIF_TRY(add_classifier(options, *family, next, tensors));
  ITIF_TRY(make_output_directory(directory));
  ITIF_TRY(write_safetensors(directory + "/adapter_model.safetensors", tensors, options.dtype));
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"task_type", nullptr},
                                   {"base_model_name_or_path", "base"},
                                   {"r", options.rank},
                                   {"lora_alpha", options.alpha},
                                   {"lora_dropout", 0.1},
                                   {"target_modules", targets},
                                   {"bias", "none"},
                                   {"use_rslora", options.is_rank_stabilized},
                                   {"use_dora", false},
                                   {"modules_to_save", nullptr},
                                   {"inference_mode", true}};
  if (options.num_labels > 0) {
    config["modules_to_save"] = {"classifier"};
    if (!options.spec.takes_images()) config["task_type"] = "SEQ_CLS";
  }
  const std::string path = directory + "/adapter_config.json";
  std::ofstream file(path, std::ios::binary);
  file << config.dump(2) << "\n";
  file.close();
  if (!file) return fail(Code::kPermission, fmt::format("{}: {}", path, errno_text(errno)));
  return {};
}

}  // namespace itif::mkmodel
