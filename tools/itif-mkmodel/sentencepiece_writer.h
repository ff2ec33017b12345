// A SentencePiece model for models that never saw a text: letters, digits and marks, so that little is
// unknown, and the words of a WordPiece vocabulary. Written as the library's own format (protocol buffers:
// sentencepiece_model.proto), of which a unigram model without normalisation needs little.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace itif::mkmodel {

// `count` distinct pieces without the special ones, in a fixed order.
std::vector<std::string> make_pieces(uint32_t count);

// The bytes of a .spm file with these pieces behind <unk>, <s> and </s>. Texts become as few of them as
// possible.
std::string sentencepiece_model(const std::vector<std::string>& pieces);

}  // namespace itif::mkmodel
