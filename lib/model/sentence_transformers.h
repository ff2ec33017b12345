// Reads the files that sentence-transformers adds to a model: modules.json, one folder per module.
#pragma once

#include <string>

#include "base/error.h"
#include "model/head_spec.h"
#include "model/spec.h"

namespace itif::model {

// If `directory` has a modules.json, sets kind, pooling, dense, normalize and max_text_tokens of
// `head` and returns true. Errors: kUnsupported (a module or pooling mode that this build does not
// support, by name), kCorrupt, kInvalidArgument.
Result<bool> read_sentence_transformers(const std::string& directory, const BackboneSpec& backbone,
                                        HeadSpec& head);

}  // namespace itif::model
