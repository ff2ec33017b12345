// Chooses the tokenizer of a directory by the files that it holds.
#include "model/tokenizer.h"

#include <fmt/format.h>

#include "model/albert_tokenizer.h"
#include "model/byte_bpe.h"
#include "model/marian_tokenizer.h"
#include "model/wordpiece.h"
#include "model/wordpiece_files.h"

namespace itif::model {

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory) {
  if (is_marian_directory(directory)) return load_marian_tokenizer(directory);
  if (is_albert_directory(directory)) return load_albert_tokenizer(directory);
  if (is_byte_bpe_directory(directory)) return load_byte_bpe_tokenizer(directory);
  ITIF_ASSIGN(const WordPieceConfig config, read_wordpiece_files(directory));
  auto tokenizer = WordPieceTokenizer::create(config);
  if (!tokenizer)
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", directory, tokenizer.error().message));
  return std::move(*tokenizer);
}

}  // namespace itif::model
