// Tokenizers as transformers 5.24 saves them (tests/reference/make_saved_tokenizer_goldens.py),
// compared with the library, and each setting of their files that is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/temp_directory.h"
#include "text/load_tokenizer.h"

namespace itif::text {
namespace {

using nlohmann::json;

class SavedTokenizer : public ::testing::Test {
 protected:
  void use(const std::string& name) {
    model_ = folder_.file(name);
    std::filesystem::remove_all(model_);
    std::filesystem::copy(ITIF_TEST_DATA "/saved_tokenizers/" + name, model_,
                          std::filesystem::copy_options::recursive);
    name_ = name;
  }
  json read(const std::string& file) { return json::parse(folder_.read(name_ + "/" + file)); }
  // Sets a value in a JSON file of the directory; discarded: removes the key.
  void change(const std::string& file, const std::string& pointer, const json& value) {
    json document = read(file);
    document[json::json_pointer(pointer)] = value;
    folder_.write(name_ + "/" + file, document.dump());
  }
  void expect_refused(const std::string& message) {
    const auto loaded = load_tokenizer(model_);
    ASSERT_FALSE(loaded) << message;
    EXPECT_EQ(loaded.error().code, Code::kUnsupported) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(model_), std::string::npos) << loaded.error().message;
  }
  void expect_same_ids() {
    const auto tokenizer = load_tokenizer(model_);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const json golden = read("golden.json");
    ASSERT_GE(golden["texts"].size(), 15u);
    for (const json& c : golden["texts"]) {
      std::vector<int32_t> ids;
      std::vector<uint8_t> types;
      ASSERT_EQ((*tokenizer)->encode(c[0].get<std::string>(), {}, {}, ids, types),
                EncodeStatus::kOk);
      EXPECT_EQ(ids, c[1].get<std::vector<int32_t>>()) << name_ << ": " << c[0];
    }
    if (!golden.contains("decode")) return;
    for (const json& c : golden["decode"])
      EXPECT_EQ((*tokenizer)->decode(c[0].get<std::vector<int32_t>>()), c[1].get<std::string>())
          << c[0];
  }

  testing::TempDirectory folder_;
  std::string model_, name_;
};

TEST_F(SavedTokenizer, IdsAndTextsAreTheLibrarys) {
  for (const char* name : {"albert", "bert", "marian", "roberta"}) {
    use(name);
    expect_same_ids();
  }
}

// Older versions write merges.txt beside it. transformers reads tokenizer.json.
TEST_F(SavedTokenizer, TokenizerJsonReplacesOlderFiles) {
  use("roberta");
  folder_.write("roberta/merges.txt", "#version: 0.2\n");
  folder_.write("roberta/vocab.json", "{}");
  expect_same_ids();
}

// As in roberta-base.
TEST_F(SavedTokenizer, FilesOfTheFirstVersionsAreRead) {
  use("roberta");
  json document = read("tokenizer.json");
  document["model"].erase("type");
  document["model"].erase("ignore_merges");
  document["model"]["dropout"] = nullptr;
  document["pre_tokenizer"].erase("use_regex");
  document["truncation"] = {
      {"direction", "Right"}, {"max_length", 512}, {"strategy", "LongestFirst"}, {"stride", 0}};
  folder_.write("roberta/tokenizer.json", document.dump());
  expect_same_ids();
}

TEST_F(SavedTokenizer, SettingsThatChangeTheIdsAreRefusedByName) {
  const char* const whole = "tokenizer.json";
  const char* const config = "tokenizer_config.json";
  const json lower = {{"type", "Lowercase"}};
  const json single = {{"id", 501}, {"content", "<one>"}, {"single_word", true}};
  const struct {
    const char *name, *file, *pointer;
    json value;
    const char* message;
  } rows[] = {
      {"roberta", whole, "/pre_tokenizer/use_regex", false, "'pre_tokenizer.use_regex'"},
      {"roberta", whole, "/model/ignore_merges", true, "'model.ignore_merges'"},
      {"roberta", whole, "/model/dropout", 0.1, "'model.dropout'"},
      {"roberta", whole, "/model/continuing_subword_prefix", "##",
       "'model.continuing_subword_prefix'"},
      {"roberta", whole, "/model/end_of_word_suffix", "</w>", "'model.end_of_word_suffix'"},
      {"roberta", whole, "/normalizer", lower, "normalizer is \"Lowercase\""},
      {"roberta", whole, "/post_processor/sep", {"<mask>", 4}, "post_processor frames texts with"},
      {"roberta", whole, "/post_processor/cls", {"<mask>", 4}, "post_processor frames texts with"},
      {"roberta", whole, "/post_processor/type", "ByteLevel", "post_processor is \"ByteLevel\""},
      {"roberta", whole, "/added_tokens/0", single, "\"<one>\" is single_word"},
      {"roberta", whole, "/truncation", {{"direction", "Left"}}, "'truncation.direction'"},
      {"roberta",
       config,
       "/extra_special_tokens",
       {"<none>"},
       "lacks the additional special token \"<none>\""},
      {"bert", whole, "/truncation", {{"direction", "Left"}}, "'truncation.direction'"},
      {"marian",
       config,
       "/extra_special_tokens",
       {"<none>"},
       "lacks the additional special token \"<none>\""},
      {"marian", config, "/added_tokens_decoder/584/single_word", true, "is single_word"},
      {"marian", config, "/sp_model_kwargs", {{"enable_sampling", true}}, "'sp_model_kwargs'"},
      {"albert",
       config,
       "/sp_model_kwargs",
       {{"enable_sampling", true}, {"alpha", 0.1}},
       "'sp_model_kwargs'"},
      {"albert", config, "/sp_model_kwargs", {{"add_bos", true}}, "'sp_model_kwargs'"},
      {"albert", config, "/do_lower_case", false, "'do_lower_case'"},
      {"albert", config, "/keep_accents", true, "'keep_accents'"},
      {"albert", config, "/cls_token", "[MASK]", "post_processor frames texts with \"[CLS]\""},
      {"albert",
       whole,
       "/normalizer/normalizers/2",
       {{"type", "NFC"}},
       "normalizer has a step that ALBERT lacks: {\"type\":\"NFC\"}"},
      {"albert", whole, "/normalizer/normalizers/0/content", "x", "normalizer has a step"},
      {"albert", whole, "/pre_tokenizer/pretokenizers/1/prepend_scheme", "never",
       "pre_tokenizer has a step"},
      {"albert", whole, "/post_processor/single/0/SpecialToken/id", "[MASK]", "post_processor"},
      {"albert", config, "/add_prefix_space", false, "'add_prefix_space'"},
      {"albert", config, "/tokenizer_class", "T5Tokenizer", "'tokenizer_class' must be Albert"},
      {"bert", config, "/tokenizer_class", "BertJapaneseTokenizer", "'tokenizer_class' must be"},
      {"roberta", config, "/tokenizer_class", "HerbertTokenizer", "'tokenizer_class' must be"},
      {"marian", config, "/tokenizer_class", "M2M100Tokenizer", "'tokenizer_class' must be Marian"},
      {"bert", config, "/tokenize_chinese_chars", nullptr, "must be true or false, found null"},
      {"bert", config, "/do_lower_case", nullptr, "must be true or false, found null"},
      {"roberta", config, "/add_prefix_space", nullptr, "must be true or false, found null"},
      {"albert", whole, "/model/type", "BPE", "model must be Unigram"},
      {"albert", whole, "/model/byte_fallback", true, "model must be Unigram"},
      {"albert", whole, "/model/vocab/7/1", "x", "piece 7 differs from spiece.model"},
      {"albert", whole, "/model/vocab/7/0", "x", "piece 7 differs from spiece.model"},
      {"albert", whole, "/added_tokens/5/normalized", true, "searched for in normalised text"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.name) + " " + row.pointer);
    use(row.name);
    change(row.file, row.pointer, row.value);
    expect_refused(row.message);
  }
}

// Published files carry them.
TEST_F(SavedTokenizer, SettingsThatChangeNoIdRefuseNothing) {
  const char* const whole = "tokenizer.json";
  const char* const config = "tokenizer_config.json";
  const struct {
    const char *name, *file, *pointer;
    json value;
  } rows[] = {
      {"roberta", whole, "/model/dropout", nullptr},
      {"roberta", whole, "/model/continuing_subword_prefix", nullptr},
      {"roberta", whole, "/model/fuse_unk", true},
      {"roberta", whole, "/post_processor/trim_offsets", false},
      {"roberta", whole, "/post_processor/add_prefix_space", true},
      {"roberta", whole, "/pre_tokenizer/trim_offsets", false},
      // The class takes it from tokenizer_config.json.
      {"roberta", whole, "/pre_tokenizer/add_prefix_space", true},
      {"roberta", whole, "/padding", {{"strategy", "BatchLongest"}}},
      {"marian", config, "/sp_model_kwargs", {{"enable_sampling", false}, {"alpha", 0.1}}},
      {"marian", config, "/additional_special_tokens", {">>fra<<"}},
      {"albert", config, "/sp_model_kwargs", json::object()},
      {"albert",
       whole,
       "/normalizer/normalizers/6",
       {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.name) + " " + row.pointer);
    use(row.name);
    change(row.file, row.pointer, row.value);
    expect_same_ids();
  }
}

// config.json names the class where tokenizer_config.json does not.
TEST_F(SavedTokenizer, TheClassMayBeInTheModelsConfiguration) {
  use("bert");
  json config = read("tokenizer_config.json");
  config.erase("tokenizer_class");
  folder_.write("bert/tokenizer_config.json", config.dump());
  folder_.write("bert/config.json", R"({"tokenizer_class": "DistilBertTokenizerFast"})");
  expect_same_ids();
  folder_.write("bert/config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  expect_refused("found \"BertJapaneseTokenizer\"");
}

TEST_F(SavedTokenizer, OtherClassesFollowTokenizerJsonOnThePrefixSpace) {
  use("roberta");
  json config = read("tokenizer_config.json");
  config["tokenizer_class"] = "TokenizersBackend";
  folder_.write("roberta/tokenizer_config.json", config.dump());
  expect_same_ids();
  change("tokenizer.json", "/pre_tokenizer/add_prefix_space", true);
  expect_refused("'pre_tokenizer.add_prefix_space' is true");
  config.erase("add_prefix_space");
  folder_.write("roberta/tokenizer_config.json", config.dump());
  std::vector<int32_t> with, without;
  std::vector<uint8_t> types;
  const auto tokenizer = load_tokenizer(model_).value();
  tokenizer->encode("request", {}, {}, with, types);
  tokenizer->encode(" request", {}, {}, without, types);
  EXPECT_EQ(with, without);
}

// Without token types, transformers gives both texts of a pair type 0.
TEST_F(SavedTokenizer, PairsHaveTheTypesThatTheModelIsGiven) {
  const std::pair<const char*, uint8_t> rows[] = {{"bert", 0}, {"albert", 1}};
  for (const auto& [name, type] : rows) {
    use(name);
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    load_tokenizer(model_).value()->encode("a", "b", {}, ids, types);
    ASSERT_FALSE(types.empty());
    EXPECT_EQ(types.back(), type) << name;
    change("tokenizer_config.json", "/model_input_names",
           type ? json{"input_ids"} : json{"input_ids", "token_type_ids"});
    load_tokenizer(model_).value()->encode("a", "b", {}, ids, types);
    EXPECT_EQ(types.back(), 1 - type) << name;
  }
}

}  // namespace
}  // namespace itif::text
