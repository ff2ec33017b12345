// Keys of configuration files, one change of a model's directory each: what the library reads is
// implemented or refused by name, and the rest refuses nothing
// (tests/reference/make_key_goldens.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "support/temp_directory.h"
#include "text/load_tokenizer.h"

namespace itif::backbone {
namespace {

using nlohmann::json;

const std::string kData = ITIF_TEST_DATA;

// A copy of a row's directory with its changes.
class ChangedModel {
 public:
  explicit ChangedModel(const json& row) : path_(folder_.file("model")) {
    std::filesystem::copy(kData + "/" + row["model"].get<std::string>(), path_,
                          std::filesystem::copy_options::recursive);
    for (const json& change : row["changes"]) {
      const std::string file = "model/" + change[0].get<std::string>();
      const std::string pointer = change[1].get<std::string>();
      json document = pointer.empty() ? change[2] : json::parse(folder_.read(file));
      document[json::json_pointer(pointer)] = change[2];
      folder_.write(file, document.dump());
    }
  }
  const std::string& path() const { return path_; }
  bool has(const char* file) const { return std::filesystem::exists(path_ + "/" + file); }

 private:
  testing::TempDirectory folder_;
  const std::string path_;
};

// The error of a model, of its tokenizer or of its image processing; empty: there is none.
std::string refusal(const ChangedModel& model) {
  if (model.has("model.safetensors")) {
    const auto opened = open_model(model.path());
    if (!opened) return opened.error().message;
    if (!opened->spec.takes_images() || opened->images) {
      if (opened->spec.takes_images() || !model.has("tokenizer_config.json")) return {};
    } else {
      return model::read_image_processing(model.path(), opened->spec.image).error().message;
    }
  }
  const auto tokenizer = text::load_tokenizer(model.path());
  return tokenizer ? std::string() : tokenizer.error().message;
}

class Keys : public ::testing::Test {
 protected:
  Keys() {
    std::ifstream file(kData + "/keys.json");
    golden_ = json::parse(file);
  }
  // Calls `check` with each row that has `kind`. Returns the number of rows.
  size_t each(const char* kind, const std::function<void(const json&)>& check) const {
    size_t count = 0;
    for (const json& row : golden_["rows"]) {
      if (!row.contains(kind)) continue;
      SCOPED_TRACE(row["model"].dump() + " " + row["changes"].dump());
      check(row);
      ++count;
    }
    return count;
  }
  json golden_;
};

TEST_F(Keys, ThoseThatChangeTheAnswerAreRefusedByName) {
  EXPECT_GE(each("refused",
                 [](const json& row) {
                   const std::string message = refusal(ChangedModel(row));
                   EXPECT_NE(message.find(row["refused"].get<std::string>()), std::string::npos)
                       << message;
                 }),
            20u);
}

TEST_F(Keys, ThoseThatTheLibraryDoesNotReadRefuseNothing) {
  EXPECT_GE(each("same", [](const json& row) { EXPECT_EQ(refusal(ChangedModel(row)), ""); }), 40u);
}

TEST_F(Keys, TokensAreThoseOfTheLibrary) {
  EXPECT_GE(each("ids",
                 [&](const json& row) {
                   const ChangedModel model(row);
                   const auto tokenizer = text::load_tokenizer(model.path());
                   ASSERT_TRUE(tokenizer) << tokenizer.error().message;
                   for (size_t i = 0; i < golden_["texts"].size(); ++i) {
                     std::vector<int32_t> ids;
                     std::vector<uint8_t> types;
                     const auto text = golden_["texts"][i].get<std::string>();
                     (*tokenizer)->encode(text, {}, {}, ids, types);
                     EXPECT_EQ(ids, row["ids"][i].get<std::vector<int32_t>>()) << text;
                   }
                 }),
            10u);
}

}  // namespace
}  // namespace itif::backbone
