// A model's directory, opened and understood but not loaded: what control needs to choose a group.
#pragma once

#include <string>

#include "base/error.h"
#include "model/spec.h"

namespace itif::model {

// The architecture of the Hugging Face directory `directory`, from its config.json. Errors:
// kNotFound (no such directory or file), kCorrupt (not JSON), kInvalidArgument (a field missing, of
// the wrong type or out of range), kUnsupported (an architecture or setting that this build does
// not run, by name).
Result<BackboneSpec> read_backbone_spec(const std::string& directory);

}  // namespace itif::model
