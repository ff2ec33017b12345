// Opens an adapter over an opened base model: places its modules in the base's weights, and puts
// its head in place of the base's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "base/error.h"
#include "model/adapter_weights.h"
#include "model/head_spec.h"

namespace itif::backbone {

struct OpenedAdapter {
  model::Adapter adapter;
  // In no particular order. Those of the head are merged into it and not listed.
  std::vector<model::PlacedModule> modules;

  // Adds all updates to the weights in `base`, for groups that cannot run them beside the base's.
  // Errors: those of Adapter::merge.
  Status merge(const std::vector<model::WeightKind>& kinds, model::Checkpoint& base);
};

// Replaces tensors of `base` by those that the adapter holds whole, and returns the base's
// config.json as of the adapter's task. Errors: kUnsupported (the family has no head for the task),
// kInvalidArgument (a tensor that is there twice), those of Adapter::read_saved.
Result<nlohmann::json> put_saved(const model::Adapter& adapter, const Family& family,
                                 const nlohmann::json& config, model::Checkpoint& base);

// Places the adapter's modules. Merges those of the head, which each tenant stores on its own, into
// `base`. Errors: kUnsupported: a module or tensor that no result depends on, or that cannot be
// changed, by name; kInvalidArgument: a module that is there twice; those of Adapter::merge.
Result<OpenedAdapter> place(model::Adapter adapter, const Family& family,
                            const model::BackboneSpec& spec, const model::HeadSpec& head,
                            model::Checkpoint& base);

}  // namespace itif::backbone
