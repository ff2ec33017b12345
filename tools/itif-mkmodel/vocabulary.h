// A WordPiece vocabulary for models that never saw a text: every letter, so that nothing is unknown;
// common English words; and syllables, so that other words become a few pieces, as with a real one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace itif::mkmodel {

// `size` distinct tokens; the special ones stand where BERT has them ([PAD] 0, [UNK] 100 to [MASK] 103),
// or first if size is below 1,000. REQUIRES: size ≥ 5.
std::vector<std::string> make_vocabulary(uint32_t size);

}  // namespace itif::mkmodel
