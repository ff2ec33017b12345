// The digest of a model's contents, and the stamp of its files.
#include "serving/model_contents.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace itif::serving {
namespace {

namespace fs = std::filesystem;

class ModelContents : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "itif-contents-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    fs::copy(ITIF_GOLDENS_DIR "/plain-f32", path("model"), fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string digest(const model::ModelFiles& files) const {
    const auto made = content_digest(files);
    EXPECT_TRUE(made) << made.error().message;
    return made.value_or("");
  }
  std::string digest() const { return digest({path("model")}); }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& file, const std::string& text) {
    // Times of files are those of the kernel's last tick: changes within one look the same.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  // A safetensors file with one tensor of two f32 values. `metadata`: of its header.
  static std::string tensors(const std::string& name, float value,
                             const std::string& metadata = "") {
    const std::string header =
        "{" + metadata + "\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    const uint64_t bytes = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &bytes, 8);
    file += header;
    for (int i = 0; i < 2; ++i) file.append(reinterpret_cast<const char*>(&value), 4);
    return file;
  }

  std::string directory_;
};

TEST_F(ModelContents, DigestIsThatOfTheContents) {
  const std::string before = digest();
  EXPECT_EQ(before.size(), 64u);
  EXPECT_EQ(before.find_first_not_of("0123456789abcdef"), before.npos);
  fs::copy(path("model"), path("other"), fs::copy_options::recursive);
  EXPECT_EQ(digest({path("other")}), before) << "another directory with equal files";
  write(path("model/README.md"), "text");
  write(path("model/trainer_state.json"), "{}");
  write(path("model/itif-samples.jsonl"), "{}");
  EXPECT_EQ(digest(), before) << "files that the model is not made of";
}

TEST_F(ModelContents, EveryFileOfTheModelCounts) {
  std::string before = digest();
  for (const char* name : {"config.json", "vocab.txt", "tokenizer_config.json"}) {
    std::string text = read(path("model/") + name);
    write(path("model/") + name, text + " ");
    EXPECT_NE(digest(), before) << name;
    write(path("model/") + name, text);
    EXPECT_EQ(digest(), before) << name;
  }
  write(path("model/special_tokens_map.json"), "{}");
  EXPECT_NE(digest(), before) << "a new file";
  fs::rename(path("model/special_tokens_map.json"), path("model/added_tokens.json"));
  const std::string renamed = digest();
  fs::remove(path("model/added_tokens.json"));
  EXPECT_NE(renamed, before);
  EXPECT_EQ(digest(), before);
}

TEST_F(ModelContents, ALastWeightCounts) {
  const std::string before = digest();
  std::string weights = read(path("model/model.safetensors"));
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write(path("model/model.safetensors"), weights);
  EXPECT_NE(digest(), before);
}

// A checkpoint that is saved again has other metadata, an order of its own, and perhaps shards.
TEST_F(ModelContents, WeightsCountAsTensors) {
  const std::string weights = path("model/model.safetensors");
  write(weights, tensors("w", 1));
  const std::string before = digest();
  write(weights, tensors("w", 1, R"("__metadata__":{"format":"pt"},)"));
  EXPECT_EQ(digest(), before);
  fs::remove(weights);
  write(path("model/part-1.safetensors"), tensors("w", 1));
  write(path("model/model.safetensors.index.json"), R"({"weight_map":{"w":"part-1.safetensors"}})");
  EXPECT_EQ(digest(), before);
  write(path("model/part-1.safetensors"), tensors("w", 2));
  EXPECT_NE(digest(), before);
  write(path("model/part-1.safetensors"), tensors("v", 1));
  write(path("model/model.safetensors.index.json"), R"({"weight_map":{"v":"part-1.safetensors"}})");
  EXPECT_NE(digest(), before) << "another name";
}

TEST_F(ModelContents, ModulesCount) {
  write(path("model/modules.json"), R"([{"path":""},{"path":"1_Pooling"},{"path":"2_Dense"},
                                        {"path":"3_Normalize"}])");
  write(path("model/1_Pooling/config.json"), "{}");
  write(path("model/2_Dense/config.json"), "{}");
  write(path("model/2_Dense/model.safetensors"), tensors("linear.weight", 1));
  write(path("model/checkpoint-7/config.json"), "{}");
  const std::string before = digest();
  write(path("model/checkpoint-7/config.json"), "{ }");
  EXPECT_EQ(digest(), before) << "no module";
  write(path("model/2_Dense/model.safetensors"), tensors("linear.weight", 2));
  const std::string dense = digest();
  EXPECT_NE(dense, before);
  write(path("model/1_Pooling/config.json"), "{ }");
  EXPECT_NE(digest(), dense);
}

TEST_F(ModelContents, AnAdapterCountsWithItsBase) {
  write(path("adapter/adapter_config.json"), "{}");
  write(path("adapter/adapter_model.safetensors"), tensors("a", 1));
  const model::ModelFiles files(path("adapter"), path("model"));
  const std::string before = digest(files);
  EXPECT_NE(before, digest());
  write(path("adapter/adapter_model.safetensors"), tensors("a", 2));
  const std::string changed = digest(files);
  EXPECT_NE(changed, before);
  write(path("adapter/adapter_config.json"), "{ }");
  EXPECT_NE(digest(files), changed);
  const std::string adapted = digest(files);
  write(path("model/config.json"), read(path("model/config.json")) + " ");
  EXPECT_NE(digest(files), adapted);
  EXPECT_EQ(directories_text(files), path("adapter") + " over " + path("model"));
}

// Registries keep digests. hashlib in Python gives the same one.
TEST_F(ModelContents, DigestsStayTheSame) {
  fs::remove_all(path("model"));
  const std::string header = R"({"w":{"dtype":"F32","shape":[100000],"data_offsets":[0,400000]}})";
  const uint64_t bytes = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &bytes, 8);
  file += header;
  for (uint32_t i = 0; i < 400'000; ++i) file += static_cast<char>(i * 7 + (i >> 8));
  write(path("model/model.safetensors"), file);
  write(path("model/config.json"), "{}");
  EXPECT_EQ(digest(), "4d22fefe06e93cfe7c36a9c3615f9b3fece5c50be06ff16155c738279e0d0115");
}

TEST_F(ModelContents, ErrorsNameTheFile) {
  fs::remove(path("model/model.safetensors"));
  fs::remove_all(path("none"));
  write(path("adapter/adapter_config.json"), "{}");
  const auto missing = content_digest({path("adapter"), path("model")});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("adapter_model.safetensors"), std::string::npos);
}

TEST_F(ModelContents, FilesTooLongForAParserDoNotCount) {
  const std::string before = digest(), notes = path("model/notes.txt");
  write(notes, "");
  fs::resize_file(notes, kMaxParsedBytes + 1);  // sparse
  EXPECT_EQ(digest(), before);
  fs::resize_file(notes, 1);
  EXPECT_NE(digest(), before);
}

TEST_F(ModelContents, ReadingCanBeGivenUp) {
  write(path("model/notes.txt"), "");
  fs::resize_file(path("model/notes.txt"), 100 << 20);
  for (const int last : {1, 3, 10}) {
    int calls = 0;
    const auto made = content_digest({path("model")}, [&] { return ++calls >= last; });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::kUnavailable);
    EXPECT_EQ(calls, last) << "nothing more is read";
  }
  // Weights, too.
  fs::remove(path("model/notes.txt"));
  write(path("other/adapter_config.json"), "{}");
  digest();  // the base's weights are known from now on
  int all = 0;
  const auto count = [&] { return ++all < 0; };
  write(path("other/adapter_model.safetensors"), tensors("x", 41));
  ASSERT_TRUE(content_digest({path("other"), path("model")}, count));
  write(path("other/adapter_model.safetensors"), tensors("x", 42));
  int calls = 0;
  const auto at_the_last = [&] { return ++calls == all; };
  EXPECT_FALSE(content_digest({path("other"), path("model")}, at_the_last));
}

// As process.user: root reads all files.
TEST_F(ModelContents, FilesThatMayNotBeReadDoNotCount) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const std::string before = digest(), results = path("model/eval_results.json");
  write(results, "{}");
  fs::permissions(results, fs::perms::owner_read);
  fs::permissions(directory_, fs::perms(0755));
  EXPECT_NE(digest(), before);
  ASSERT_EQ(::seteuid(65534), 0);
  const std::string as_nobody = digest();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(as_nobody, before);
}

TEST_F(ModelContents, StampChangesWithEachFile) {
  const model::ModelFiles files(path("model"));
  const std::string before = file_stamp(files);
  EXPECT_EQ(before.size(), 32u);
  EXPECT_EQ(file_stamp(files), before);
  // As cp -p, rsync -a and tar leave it: same size, same times.
  const std::string config = path("model/config.json");
  const auto time = fs::last_write_time(config);
  std::string text = read(config);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  write(config, text);
  fs::last_write_time(config, time);
  const std::string replaced = file_stamp(files);
  EXPECT_NE(replaced, before);
  write(path("model/2_Dense/model.safetensors"), "");
  EXPECT_NE(file_stamp(files), replaced) << "perhaps a module's";
}

}  // namespace
}  // namespace itif::serving
