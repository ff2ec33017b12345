#include "text/sentencepiece_file.h"

#include <fmt/format.h>

#include <exception>

#include "json/json_file.h"
#include "text/charsmap.h"

namespace itif::text {
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
  ITIF_ASSIGN(const std::string bytes, json_file::read_text_file(path, kMaxModelBytes));
  return parse_sentencepiece(bytes, path, model);
}

}  // namespace itif::text
