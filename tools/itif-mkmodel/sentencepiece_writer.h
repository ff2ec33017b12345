// Makes a SentencePiece model for untrained models: letters, digits and punctuation, so that little
// is unknown, and the words of a WordPiece vocabulary. It is a unigram model without normalisation,
// in the library's format (protocol buffers: sentencepiece_model.proto).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace itif::mkmodel {

// Returns `count` distinct pieces in a fixed order, without special pieces.
std::vector<std::string> make_pieces(uint32_t count);

// Returns the bytes of a .spm file with <unk>, <s>, </s> and then these pieces. It splits a text
// into as few pieces as possible.
std::string sentencepiece_model(const std::vector<std::string>& pieces);

}  // namespace itif::mkmodel
