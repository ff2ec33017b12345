// The settings of sentence-transformers' Transformer module. It looks for them under the names that
// its versions have used, and reads the first file that exists.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace itif::text {

struct SentenceSettings {
  std::string path;             // of the file; empty: there is none
  uint32_t max_seq_length = 0;  // longest text in tokens; 0: not set
  bool do_lower_case = false;
  bool is_classifier = false;  // its task is that of a CrossEncoder
};

// Errors: kCorrupt, kUnsupported: a setting that changes the result and is not implemented, by
// name.
Result<SentenceSettings> read_sentence_settings(const std::string& directory);

// sentence-transformers may lower-case a text before its tokenizer reads it. Errors: those of
// read_sentence_settings(), and kUnsupported if it does and the tokenizer keeps case.
Status check_sentence_case(const std::string& directory, bool tokenizer_lowers_case);

}  // namespace itif::text
