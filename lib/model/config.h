// config.json, read into a BackboneSpec. One row a family in config.cc's table; a setting that
// would change the computation and that we do not implement is refused by name, never ignored.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/spec.h"

namespace itif::model {

// `origin` names the file in errors. Errors: as for read_backbone_spec (model_dir.h).
Result<BackboneSpec> parse_backbone_spec(const nlohmann::json& config, const std::string& origin);

// What the names of transformers' classes start with for a family: "Bert" for "bert". REQUIRES: a family
// that parse_backbone_spec gives.
std::string_view class_prefix(std::string_view family);

// The activation that transformers calls `name`. Errors: kUnsupported, with those that are.
Result<kernels::Activation> parse_activation(const std::string& name, const std::string& origin);

}  // namespace itif::model
