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

Status check_sentencepiece_arguments(const nlohmann::json& settings, const std::string& origin) {
  const auto arguments = settings.find("sp_model_kwargs");
  if (arguments == settings.end() || arguments->empty()) return {};
  bool is_neutral = arguments->is_object();
  if (is_neutral)
    for (const auto& [key, value] : arguments->items())
      // Without sampling, its parameters change nothing.
      is_neutral &=
          key == "nbest_size" || key == "alpha" || (key == "enable_sampling" && value == false);
  if (is_neutral) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'sp_model_kwargs' must be empty or leave sampling off, found {}",
                          origin, json_file::shown(*arguments)));
}

}  // namespace itif::text
