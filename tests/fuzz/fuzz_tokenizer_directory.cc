// A tenant's directory with a tokenizer, in which one file has any contents, and a text encoded
// with that tokenizer.
//
//   input = u8: which directory; u8: which of kFiles; then the file
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "encode_input.h"
#include "text/load_tokenizer.h"

namespace {

namespace fs = std::filesystem;
using namespace itif::text;

constexpr const char* kDirectories[] = {
    "roberta_tokenizer",        "albert_tokenizer",      "marian_tokenizer",
    "saved_tokenizers/roberta", "saved_tokenizers/bert", "no_tokenizer",  // of no other file
};
constexpr const char* kFiles[] = {"tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "config.json",
                                  "vocab.json",
                                  "merges.txt",
                                  "vocab.txt",
                                  "added_tokens.json",
                                  "sentence_bert_config.json",
                                  "spiece.model",
                                  "source.spm",
                                  "target.spm"};

// Copies of the directories, in memory if there is a file system for that.
class Copies {
 public:
  Copies() {
    const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "itif-fuzz-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    root_ = name;
    for (const char* directory : kDirectories) {
      const fs::path from = fs::path(ITIF_TEST_DATA) / directory;
      fs::create_directories(root_ / directory);
      if (!fs::exists(from)) continue;
      for (const auto& file : fs::directory_iterator(from))
        if (file.path().filename() != "golden.json")
          fs::copy_file(file.path(), root_ / directory / file.path().filename());
    }
  }
  ~Copies() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  fs::path of(const char* directory) const { return root_ / directory; }

 private:
  fs::path root_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Copies copies;
  if (size < 2) return 0;
  const char* directory = kDirectories[data[0] % std::size(kDirectories)];
  const fs::path place = copies.of(directory);
  const fs::path file = place / kFiles[data[1] % std::size(kFiles)];
  const fs::path original = fs::path(ITIF_TEST_DATA) / directory / file.filename();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data) + 2, static_cast<std::streamsize>(size - 2));
  const auto tokenizer = load_tokenizer(place.string());
  if (tokenizer)
    itif::fuzz::encode_input(**tokenizer, "The unaffable caf\u00e9, \u4e2d\u56fd <s></s> [SEP]",
                             {.max_tokens = 16, .truncation = Truncation::kLongestFirst});
  else
    CHECK(!tokenizer.error().message.empty());
  fs::remove(file);
  if (fs::exists(original)) fs::copy_file(original, file);
  return 0;
}
