// Makes a WordPiece vocabulary for untrained models: all letters, so that nothing is unknown;
// common English words; and syllables, so that other words split into a few pieces, as with a
// trained vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace itif::mkmodel {

// Returns `size` distinct tokens. Special tokens have BERT's ids ([PAD] 0, [UNK] 100 to [MASK]
// 103), or come first if size is below 1,000. REQUIRES: size ≥ 5.
std::vector<std::string> make_vocabulary(uint32_t size);

}  // namespace itif::mkmodel
