// Checks the normalisation table of a SentencePiece model before the library uses it. The library
// does not check the table's offsets, so a damaged or hostile file would end the process.
//
// Source: sentencepiece_model.proto (ModelProto, NormalizerSpec) and the double array of Yata et
// al., "A compact static double-array keeping character codes", 2007, as darts-clone stores it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace itif::text {

// `model` holds the bytes of a file; `origin` names it in errors. Errors: kCorrupt: not a protocol
// buffer, or a table with an offset outside itself.
Status check_charsmaps(std::string_view model, const std::string& origin);

// Returns true if the model's table replaces or removes this code point. REQUIRES: the model passes
// check_charsmaps().
bool charsmap_replaces(std::string_view model, uint32_t code_point);

}  // namespace itif::text
