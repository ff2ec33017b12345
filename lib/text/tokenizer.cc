// Chooses the tokenizer of a directory by the files that it holds.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include "text/albert_tokenizer.h"
#include "text/byte_bpe.h"
#include "text/marian_tokenizer.h"
#include "text/sentence_settings.h"
#include "text/wordpiece.h"
#include "text/wordpiece_files.h"

namespace itif::text {

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory) {
  if (is_marian_directory(directory)) return load_marian_tokenizer(directory);
  if (is_albert_directory(directory)) return load_albert_tokenizer(directory);
  if (is_byte_bpe_directory(directory)) {
    ITIF_TRY(check_sentence_case(directory, false));
    return load_byte_bpe_tokenizer(directory);
  }
  ITIF_ASSIGN(const WordPieceConfig config, read_wordpiece_files(directory));
  auto tokenizer = WordPieceTokenizer::create(config);
  if (!tokenizer)
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", directory, tokenizer.error().message));
  return std::move(*tokenizer);
}

}  // namespace itif::text
