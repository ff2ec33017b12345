#include "sentencepiece_writer.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_set>

#include "vocabulary.h"

namespace itif::mkmodel {
namespace {

constexpr const char* kMetaSpace = "\xe2\x96\x81";  // ▁, begins a word
enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_bytes(std::string& out, uint32_t field, const std::string& bytes) {
  append_varint(out, field << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string piece_message(const std::string& piece, float score, PieceType type) {
  std::string message;
  append_bytes(message, 1, piece);
  append_varint(message, 2 << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(score);
  for (int shift = 0; shift < 32; shift += 8) message += static_cast<char>(bits >> shift);
  append_varint(message, 3 << 3 | 0);
  append_varint(message, static_cast<uint8_t>(type));
  return message;
}

}  // namespace

std::vector<std::string> make_pieces(uint32_t count) {
  std::vector<std::string> pieces;
  std::unordered_set<std::string> seen = {"</s>", "<unk>", "<s>", "<pad>"};
  const auto add = [&](const std::string& piece) {
    if (pieces.size() < count && seen.insert(piece).second) pieces.push_back(piece);
  };
  add(kMetaSpace);
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
  // Pieces that begin a word, and pieces that continue one.
  for (const std::string& token : make_vocabulary(count + 200)) {
    if (token.starts_with("[") && token.size() > 1) continue;
    if (token.starts_with("##"))
      add(token.substr(2));
    else
      add(kMetaSpace + token);
  }
  for (uint32_t i = 0; pieces.size() < count; ++i) add(fmt::format("{}unused{}", kMetaSpace, i));
  return pieces;
}

std::string sentencepiece_model(const std::vector<std::string>& pieces) {
  std::string model;
  const auto add = [&](const std::string& piece, float score, PieceType type) {
    append_bytes(model, 1, piece_message(piece, score, type));
  };
  add("<unk>", 0, PieceType::kUnknown);
  add("<s>", 0, PieceType::kControl);
  add("</s>", 0, PieceType::kControl);
  // Nearly equal scores prefer the fewest pieces; ties go to earlier pieces.
  float score = -8;
  for (const std::string& piece : pieces) add(piece, score -= 1e-4f, PieceType::kNormal);
  append_bytes(model, 2, "");  // trainer: its defaults are unigram and the ids above
  std::string normalizer;
  append_bytes(normalizer, 1, "identity");
  append_bytes(model, 3, normalizer);
  return model;
}

}  // namespace itif::mkmodel
