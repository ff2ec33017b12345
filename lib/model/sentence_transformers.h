// The files that sentence-transformers puts beside a model: modules.json and a folder a module.
#pragma once

#include <string>

#include "base/error.h"
#include "model/head.h"

namespace itif::model {

// If `directory` has a modules.json, sets kind, pooling, dense, normalize and max_text_tokens of
// `head` and returns true. Errors: kUnsupported (a module or pooling mode that this build does not
// run, by name), kCorrupt, kInvalidArgument.
Result<bool> read_sentence_transformers(const std::string& directory, const BackboneSpec& backbone,
                                        HeadSpec& head);

}  // namespace itif::model
