// The normalisation table inside a SentencePiece model, checked before the library walks it: the library
// follows its offsets without looking, so that a damaged or hostile file would end the process.
//
// Source: sentencepiece_model.proto (ModelProto, NormalizerSpec) and the double array of Yata et al.,
// "A compact static double-array keeping character codes", 2007, in the form of darts-clone.
#pragma once

#include <string_view>

#include "base/error.h"

namespace itif::model {

// `model` are the bytes of a file, `origin` names it in errors. Errors: kCorrupt: not a protocol buffer, or
// a table that leads outside of itself.
Status check_charsmaps(std::string_view model, const std::string& origin);

}  // namespace itif::model
