#include "text/sentencepiece_file.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>

#include "json/json_file.h"
#include "text/charsmap.h"
#include "text/proto_fields.h"

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
  ITIF_ASSIGN(const std::string bytes, read_sentencepiece_bytes(path));
  return parse_sentencepiece(bytes, path, model);
}

Result<std::string> read_sentencepiece_bytes(const std::string& path) {
  return json_file::read_text_file(path, kMaxModelBytes);
}

Status replace_scores(std::string& bytes, const std::vector<float>& scores,
                      const std::string& origin) {
  constexpr uint32_t kPieces = 1, kScore = 2;  // of ModelProto and its SentencePiece
  size_t next = 0;
  const auto corrupt = [&] {
    return fail(Code::kCorrupt,
                fmt::format("{}: not a SentencePiece model of {} pieces", origin, scores.size()));
  };
  std::string_view model = bytes;
  for (ProtoField field; !model.empty();) {
    if (!take_field(model, field)) return corrupt();
    if (field.number != kPieces || !field.is_bytes) continue;
    for (ProtoField inner; !field.bytes.empty();) {
      if (!take_field(field.bytes, inner)) return corrupt();
      if (inner.number != kScore || !inner.is_fixed32) continue;
      if (next == scores.size()) return corrupt();
      std::memcpy(bytes.data() + (inner.bytes.data() - bytes.data()), &scores[next++], 4);
    }
  }
  return next == scores.size() ? Status{} : corrupt();
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
