// A tenant's SentencePiece model, and a text encoded with it. The library is third-party, but no
// model may crash the appliance.
//
//   input = the file
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/sentencepiece_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sentencepiece::SentencePieceProcessor model;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto read = itif::text::parse_sentencepiece(bytes, "spiece.model", model); !read) {
    CHECK(!read.error().message.empty());
    return 0;
  }
  std::vector<int> ids;
  std::vector<std::string> pieces;
  (void)model.Encode("The request, na\u00efve \u4e2d\u56fd \ufb01ne", &ids);
  (void)model.Encode("The request", &pieces);
  std::string text;
  (void)model.Decode(pieces, &text);
  return 0;
}
