#include "model/sentencepiece_file.h"

#include <fmt/format.h>

#include <exception>

#include "model/charsmap.h"
#include "model/json_file.h"

namespace itif::model {
namespace {

constexpr size_t kMaxModelBytes = 64u << 20;

}  // namespace

Status parse_sentencepiece(const std::string& bytes, const std::string& origin,
                           sentencepiece::SentencePieceProcessor& model) {
  ITIF_TRY(check_charsmaps(bytes, origin));
  try {
    if (const auto loaded = model.LoadFromSerializedProto(bytes); !loaded.ok())
      return fail(Code::kCorrupt,
                  fmt::format("{}: not a SentencePiece model: {}", origin, loaded.ToString()));
  } catch (const std::exception& e) {
    return fail(Code::kCorrupt, fmt::format("{}: not a SentencePiece model: {}", origin, e.what()));
  }
  return {};
}

Status read_sentencepiece(const std::string& path, sentencepiece::SentencePieceProcessor& model) {
  ITIF_ASSIGN(const std::string bytes, read_text_file(path, kMaxModelBytes));
  return parse_sentencepiece(bytes, path, model);
}

}  // namespace itif::model
