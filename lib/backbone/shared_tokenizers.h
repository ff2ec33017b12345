// Tokenizers by the contents of their files: models with equal files share one tokenizer, so that a
// fine-tune's load neither parses its vocabulary again nor takes memory for it.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace itif::backbone {

// As text::load_tokenizer(), but returns a tokenizer that was loaded from equal files if one is
// still in use. Any thread.
Result<std::shared_ptr<const text::Tokenizer>> load_shared_tokenizer(const std::string& directory);

}  // namespace itif::backbone
