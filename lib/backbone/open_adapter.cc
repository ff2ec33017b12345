#include "backbone/open_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

namespace itif::backbone {
namespace {

using model::Adapter;
using model::AdapterModule;
using model::Checkpoint;
using model::LinearSpec;
using nlohmann::json;

std::string config_path(const Adapter& adapter) {
  return adapter.directory() + "/" + Adapter::kConfigFile;
}

// A tensor's name without the family's prefix, which checkpoints of bare encoders lack.
std::string_view bare(std::string_view name, std::string_view prefix) {
  const bool has_prefix =
      name.size() > prefix.size() && name.starts_with(prefix) && name[prefix.size()] == '.';
  return has_prefix ? name.substr(prefix.size() + 1) : name;
}

std::string stored_name(const Family& family, const std::string& name) {
  return family.stored_name == nullptr ? name : family.stored_name(name);
}

// The names under which a checkpoint may hold a tensor.
std::array<std::string, 2> variants(std::string_view name, std::string_view prefix) {
  const std::string own(bare(name, prefix));
  return {own, std::string(prefix) + "." + own};
}

struct Task {
  std::string_view name, architecture;  // the end of its class's name
};
constexpr Task kTasks[] = {{"SEQ_CLS", "ForSequenceClassification"},
                           {"TOKEN_CLS", "ForTokenClassification"},
                           {"QUESTION_ANS", "ForQuestionAnswering"}};

const model::Architecture* architecture_of(const Family& family, std::string_view suffix) {
  const auto found = std::ranges::find_if(
      family.heads.architectures, [&](const auto& row) { return row.name.ends_with(suffix); });
  return found == family.heads.architectures.end() ? nullptr : &*found;
}

// Sets the class that PEFT's model for the task wraps. Without a task it is the base's, or that of
// the saved head.
Status set_architecture(const Adapter& adapter, const Family& family, json& config) {
  const std::string& task = adapter.config().task;
  if (task == "SEQ_2_SEQ_LM" && family.make_decoder != nullptr) return {};
  if (task == "FEATURE_EXTRACTION") {
    config["architectures"] = {std::string(family.heads.architectures.front().name)};
    return {};
  }
  for (const Task& known : kTasks) {
    if (task != known.name) continue;
    const model::Architecture* architecture = architecture_of(family, known.architecture);
    if (architecture == nullptr) break;
    config["architectures"] = {std::string(architecture->name)};
    return {};
  }
  if (!task.empty())
    return fail(Code::kUnsupported,
                fmt::format("{}: 'task_type' must be SEQ_CLS, TOKEN_CLS, QUESTION_ANS, "
                            "FEATURE_EXTRACTION or null, as far as the base's family ({}) has such "
                            "a head, found \"{}\"",
                            config_path(adapter), family.model_type, task));
  const auto is_saved_head = [&](const model::Architecture& row) {
    return !row.classifier.empty() &&
           std::ranges::find(adapter.saved(), fmt::format("{}.weight", row.classifier)) !=
               adapter.saved().end();
  };
  const auto of_base = config.find("architectures");
  const bool has_head = of_base != config.end() && of_base->is_array() && of_base->size() == 1 &&
                        std::ranges::any_of(family.heads.architectures, [&](const auto& row) {
                          return (*of_base)[0] == std::string(row.name) && is_saved_head(row);
                        });
  if (!has_head && std::ranges::any_of(family.heads.architectures, is_saved_head))
    config.erase("architectures");
  return {};
}

// Drops the base's labels if the adapter's classifier has another number of them.
void set_labels(const Family& family, const Checkpoint& base, json& config) {
  const auto labels = config.find("id2label");
  const auto of_config = config.find("architectures");
  if (labels == config.end() || !labels->is_object()) return;
  for (const model::Architecture& row : family.heads.architectures) {
    const bool is_it = of_config == config.end() || !of_config->is_array() ||
                       (of_config->size() == 1 && (*of_config)[0] == std::string(row.name));
    if (!is_it || row.classifier.empty()) continue;
    const model::TensorEntry* weight = base.find(fmt::format("{}.weight", row.classifier));
    if (weight == nullptr || weight->dims.empty() || weight->dims[0] == labels->size()) continue;
    config.erase("id2label");
    config.erase("label2id");
    return;
  }
}

// Finds the weight that a checkpoint may name `tensor`.
std::optional<std::pair<size_t, size_t>> find_source(const std::vector<model::WeightKind>& kinds,
                                                     std::string_view prefix,
                                                     std::string_view tensor) {
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    for (size_t source = 0; source < kinds[kind].sources.size(); ++source)
      for (const std::string& name : kinds[kind].sources[source].names)
        if (bare(name, prefix) == bare(tensor, prefix)) return std::pair(kind, source);
  return std::nullopt;
}

std::vector<const LinearSpec*> linears_of(const model::HeadSpec& head) {
  std::vector<const LinearSpec*> linears;
  for (const auto* list : {&head.pooler, &head.classifier, &head.dense})
    for (const LinearSpec& linear : *list)
      if (linear.directory.empty()) linears.push_back(&linear);
  return linears;
}

// A saved tensor that nothing reads would be left out of the results.
Status check_saved(const Adapter& adapter, const Family& family,
                   const std::vector<model::WeightKind>& kinds, const model::HeadSpec& head) {
  const std::string_view prefix = family.heads.prefix;
  for (const std::string& name : adapter.saved()) {
    const std::string stored = stored_name(family, name);
    const std::string_view own = bare(stored, prefix);
    const bool is_read =
        find_source(kinds, prefix, stored).has_value() ||
        std::ranges::any_of(linears_of(head), [&](const LinearSpec* linear) {
          return own == bare(linear->weight, prefix) || own == bare(linear->bias, prefix);
        });
    if (!is_read)
      return fail(Code::kUnsupported,
                  fmt::format("{}/{}: tensor of module \"{}\": no result depends on it with this "
                              "base: train the adapter without it, or name another base",
                              adapter.directory(), Adapter::kWeightsFile, name));
  }
  return {};
}

// Two names may be one in the base: with the family's prefix and without it. Only one of them could
// take effect. With `suffix`, each name is a tensor's.
Status check_single(const Adapter& adapter, const Family& family,
                    std::span<const std::string> names, std::string_view suffix) {
  std::map<std::string, std::string_view> seen;  // by the tensor in the base
  for (const std::string& name : names) {
    const std::string stored = stored_name(family, fmt::format("{}{}", name, suffix));
    const auto [first, is_new] = seen.emplace(std::string(bare(stored, family.heads.prefix)), name);
    if (is_new) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{}/{}: \"{}\" is there twice, as \"{}\" and as \"{}\": keep one",
                            adapter.directory(), Adapter::kWeightsFile,
                            bare(name, family.heads.prefix), first->second, name));
  }
  return {};
}

// A tensor that the adapter has trained but does not hold would silently be the base's. `names`:
// those that a checkpoint may give it.
Status check_held(const Adapter& adapter, const Family& family,
                  std::span<const std::string> names) {
  const std::string_view prefix = family.heads.prefix;
  const auto trained =
      std::ranges::find_if(names, [&](const std::string& name) { return adapter.must_save(name); });
  if (trained == names.end()) return {};
  for (const std::string& saved : adapter.saved()) {
    const std::string stored = stored_name(family, saved);
    for (const std::string& name : names)
      if (bare(stored, prefix) == bare(name, prefix)) return {};
  }
  return fail(
      Code::kInvalidArgument,
      fmt::format("{}/{}: expected a tensor \"{}\", because 'modules_to_save', 'task_type' "
                  "or 'bias' of {} name its module, found none",
                  adapter.directory(), Adapter::kWeightsFile, *trained, Adapter::kConfigFile));
}

Status check_all_held(const Adapter& adapter, const Family& family,
                      const std::vector<model::WeightKind>& kinds, const model::HeadSpec& head) {
  for (const model::WeightKind& kind : kinds)
    for (const model::Source& source : kind.sources)
      ITIF_TRY(check_held(adapter, family, source.names));
  for (const LinearSpec* linear : linears_of(head))
    for (const std::string& name : {linear->weight, linear->bias})
      if (!name.empty()) ITIF_TRY(check_held(adapter, family, {&name, 1}));
  return {};
}

}  // namespace

Status OpenedAdapter::merge(const std::vector<model::WeightKind>& kinds, Checkpoint& base) {
  for (const model::PlacedModule& placed : modules) {
    const model::WeightKind& kind = kinds[placed.kind];
    ITIF_TRY(adapter.merge(placed.module, base.choose(kind.sources[placed.source].names),
                           kind.source_shape, base));
  }
  modules.clear();
  return {};
}

Result<json> put_saved(const Adapter& adapter, const Family& family, const json& config,
                       Checkpoint& base) {
  ITIF_TRY(check_single(adapter, family, adapter.saved(), ""));
  for (const std::string& name : adapter.saved()) {
    ITIF_ASSIGN(model::HostTensor tensor, adapter.read_saved(name));
    const std::string stored = stored_name(family, name);
    for (const std::string& variant : variants(stored, family.heads.prefix)) base.erase(variant);
    base.put(stored, std::move(tensor), adapter.directory() + "/" + Adapter::kWeightsFile);
  }
  json adapted = config;
  ITIF_TRY(set_architecture(adapter, family, adapted));
  set_labels(family, base, adapted);
  return adapted;
}

Result<OpenedAdapter> place(Adapter adapter, const Family& family, const model::BackboneSpec& spec,
                            const model::HeadSpec& head, Checkpoint& base) {
  const std::string_view prefix = family.heads.prefix;
  const std::vector<model::WeightKind> kinds = family.weight_kinds(spec);
  std::vector<std::string> changed;
  for (const AdapterModule& module : adapter.modules()) changed.push_back(module.name);
  ITIF_TRY(check_single(adapter, family, changed, ".weight"));
  ITIF_TRY(check_saved(adapter, family, kinds, head));
  ITIF_TRY(check_all_held(adapter, family, kinds, head));
  std::vector<model::PlacedModule> modules;
  for (const AdapterModule& module : adapter.modules()) {
    const std::string tensor = stored_name(family, module.name + ".weight");
    const auto source = find_source(kinds, prefix, tensor);
    if (source && kinds[source->first].storage == model::Storage::kMatrix) {
      modules.push_back({source->first, source->second, module});
      continue;
    }
    const auto linears = linears_of(head);
    const auto linear = std::ranges::find_if(linears, [&](const LinearSpec* each) {
      return bare(each->weight, prefix) == bare(tensor, prefix);
    });
    if (linear == linears.end())
      return fail(Code::kUnsupported,
                  fmt::format("{}: module \"{}\" cannot have an adapter: only the base's GEMMs and "
                              "the layers of its head can (of the base {})",
                              config_path(adapter), module.name, base.directory()));
    ITIF_TRY(adapter.merge(module, (*linear)->weight, {(*linear)->n, (*linear)->k}, base));
  }
  OpenedAdapter opened{std::move(adapter), std::move(modules)};
  return opened;
}

}  // namespace itif::backbone
