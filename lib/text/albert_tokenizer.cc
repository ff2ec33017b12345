#include "text/albert_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "text/framed_tokenizer.h"
#include "text/sentence_settings.h"
#include "text/sentencepiece_file.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

// Replaces `` and '' with ".
std::string with_plain_quotes(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view two = text.substr(at, 2);
    const bool is_quote = two == "``" || two == "''";
    out += is_quote ? '"' : text[at];
    at += is_quote ? 1 : 0;
  }
  return out;
}

class AlbertTokenizer final : public FramedTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& directory) {
    std::unique_ptr<AlbertTokenizer> tokenizer(new AlbertTokenizer);
    ITIF_ASSIGN(const TokenizerSettings settings, read_tokenizer_settings(directory));
    ITIF_TRY(check_sentence_case(directory, settings.lower_case));
    const std::string path = directory + "/spiece.model";
    ITIF_TRY(read_sentencepiece(path, tokenizer->pieces_));
    tokenizer->lower_case_ = settings.lower_case;
    tokenizer->keeps_accents_ = settings.keeps_accents;
    tokenizer->max_tokens_ = settings.max_tokens;
    tokenizer->vocab_size_ = static_cast<uint32_t>(tokenizer->pieces_.GetPieceSize());
    const auto id_of = [&](const std::string& piece) { return tokenizer->id_of(piece); };
    if (Status set = tokenizer->set_frame(settings, kDefaults, id_of, {.has_types = true}); !set)
      return fail(set.error().code, fmt::format("{}: {}", path, set.error().message));
    return tokenizer;
  }

 private:
  AlbertTokenizer() = default;

  // -1: the model has no such piece.
  int32_t id_of(const std::string& piece) const {
    const int id = pieces_.PieceToId(piece);
    return id >= 0 && id < pieces_.GetPieceSize() && pieces_.IdToPiece(id) == piece ? id : -1;
  }

  static constexpr Default kDefaults[] = {{"unk_token", "<unk>"},
                                          {"pad_token", "<pad>"},
                                          {"cls_token", "[CLS]"},
                                          {"sep_token", "[SEP]"},
                                          {"mask_token", "[MASK]"}};

  void append_text(std::string_view text, size_t, std::vector<int32_t>& ids) const override {
    std::string prepared = with_plain_quotes(text);
    if (!keeps_accents_) prepared = without_marks(prepared);
    prepared = spaced(prepared);
    std::vector<int> pieces;
    if (!pieces_.Encode(prepared, &pieces).ok()) return;
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  // Lower-cases the text unless case is kept, and turns every white space into a space.
  std::string spaced(std::string_view text) const {
    std::string out;
    char bytes[kMaxUtf8Bytes];
    for (const char* at = text.data(); at < text.data() + text.size();) {
      uint32_t point = next_code_point(at);
      if (is_white_space(point)) point = ' ';
      if (!lower_case_) {
        out.append(bytes, put_code_point(point, bytes));
        continue;
      }
      const CodePoints lower = lower_case(point);
      for (uint32_t i = 0; i < lower.size; ++i)
        out.append(bytes, put_code_point(static_cast<uint32_t>(lower.points[i]), bytes));
    }
    return out;
  }

  sentencepiece::SentencePieceProcessor pieces_;
  bool lower_case_ = true;
  bool keeps_accents_ = false;
};

}  // namespace

bool is_albert_directory(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/spiece.model", error);
}

Result<std::unique_ptr<Tokenizer>> load_albert_tokenizer(const std::string& directory) {
  return AlbertTokenizer::load(directory);
}

}  // namespace itif::text
