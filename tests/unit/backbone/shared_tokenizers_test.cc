// Models with equal tokenizer files share a tokenizer; any other file keeps them apart.
#include "backbone/shared_tokenizers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "support/temp_directory.h"

namespace itif::backbone {
namespace {

namespace fs = std::filesystem;

class SharedTokenizersTest : public ::testing::Test {
 protected:
  std::string copy(const char* name, const char* of = "cross-encoder-f32") {
    const std::string path = folder_.file(name);
    fs::copy(std::string(ITIF_TEST_DATA) + "/goldens/" + of, path, fs::copy_options::recursive);
    return path;
  }
  static std::shared_ptr<const text::Tokenizer> load(const std::string& directory) {
    auto loaded = load_shared_tokenizer(directory);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? *loaded : nullptr;
  }
  static void replace(const std::string& path, const std::string& from, const std::string& to) {
    std::ifstream in(path);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << path << " has no " << from;
    std::ofstream(path) << text.replace(at, from.size(), to);
  }

  testing::TempDirectory folder_;
};

TEST_F(SharedTokenizersTest, EqualFilesShareATokenizer) {
  const auto first = load(copy("a"));
  const std::string second = copy("b");
  std::ofstream(second + "/model.safetensors") << "other weights";
  replace(second + "/config.json", "{", "{\"id2label\": {\"0\": \"other\"}, ");
  EXPECT_EQ(load(second), first);
}

TEST_F(SharedTokenizersTest, AnyOtherFileKeepsThemApart) {
  const auto first = load(copy("a", "classifier-bf16"));
  const std::string vocabulary = copy("b", "classifier-bf16");
  std::ofstream(vocabulary + "/vocab.txt", std::ios::app) << "newword\n";
  const auto longer = load(vocabulary);
  EXPECT_NE(longer, first);
  EXPECT_EQ(longer->vocab_size(), first->vocab_size() + 1);
  const std::string settings = copy("c", "classifier-bf16");
  replace(settings + "/tokenizer_config.json", "{", "{\"never_split\": null, ");
  EXPECT_NE(load(settings), first);
  const std::string added = copy("d", "classifier-bf16");
  std::ofstream(added + "/added_tokens.json") << "{}";
  EXPECT_NE(load(added), first);
  // The same directory with new files is another tokenizer, and the old one stays as it was.
  const std::string changed = copy("e", "classifier-bf16");
  EXPECT_EQ(load(changed), first);
  std::ofstream(changed + "/vocab.txt", std::ios::app) << "newword\n";
  EXPECT_EQ(load(changed), longer);
}

TEST_F(SharedTokenizersTest, UnusedTokenizersAreFreed) {
  auto first = load(copy("a"));
  const std::weak_ptr<const text::Tokenizer> observer = first;
  first.reset();
  EXPECT_TRUE(observer.expired());
  EXPECT_NE(load(copy("b")), nullptr);
}

TEST_F(SharedTokenizersTest, ErrorsNameTheirOwnDirectory) {
  const auto kept = load(copy("a"));
  const std::string broken = copy("b");
  std::ofstream(broken + "/tokenizer.json") << "{";
  const auto loaded = load_shared_tokenizer(broken);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kCorrupt);
  EXPECT_NE(loaded.error().message.find(broken), std::string::npos);
  EXPECT_EQ(load_shared_tokenizer(folder_.file("none")).error().code, Code::kNotFound);
}

TEST_F(SharedTokenizersTest, AnyThreadMayLoad) {
  const std::string directory = copy("a");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) EXPECT_NE(load(directory), nullptr);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace itif::backbone
