// The loader reads back the models that itif-mkmodel writes.
#include "make_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "backbone/open_model.h"
#include "make_adapter.h"
#include "support/plain_device.h"
#include "support/temp_directory.h"
#include "vocabulary.h"

namespace itif::mkmodel {
namespace {

using testing::TempDirectory;

ModelOptions tiny(HeadChoice head, const char* backbone = "bert-tiny") {
  ModelOptions options;
  options.spec = backbone::find_preset(backbone).value()->spec;
  options.spec.hidden = 32;
  options.spec.heads = 2;
  options.spec.intermediate = 48;
  if (!options.spec.takes_images()) options.spec.vocab = 3000;
  options.head = head;
  return options;
}

TEST(MakeModel, EveryHeadAndTypeIsReadBack) {
  const std::pair<HeadChoice, std::string> heads[] = {
      {HeadChoice::kNone, "hidden"},
      {HeadChoice::kPooler, "pooler"},
      {HeadChoice::kEmbedding, "embedding (mean, unit length, 32)"},
      {HeadChoice::kClassification, "classification (2 labels)"},
      {HeadChoice::kTokenClassification, "token_classification (5 labels)"}};
  for (const auto& [head, description] : heads) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      TempDirectory directory;
      ModelOptions options = tiny(head);
      options.dtype = type;
      const Status made = make_model(options, directory.path());
      ASSERT_TRUE(made) << made.error().message;
      const auto opened = backbone::open_model(directory.path());
      ASSERT_TRUE(opened) << opened.error().message;
      EXPECT_EQ(opened->spec, options.spec);
      EXPECT_EQ(model::describe(opened->head, opened->spec), description);
      EXPECT_EQ(opened->max_text_tokens, head == HeadChoice::kEmbedding ? 256u : 512u);
      ASSERT_NE(opened->tokenizer, nullptr);
      EXPECT_EQ(opened->tokenizer->vocab_size(), 3000u);
    }
  }
}

// Covers the tensor and head names of each family.
TEST(MakeModel, EveryFamilyIsReadBackWithAllWeights) {
  for (const backbone::Family* family : backbone::families()) {
    for (const HeadChoice head : {HeadChoice::kNone, HeadChoice::kPooler, HeadChoice::kEmbedding,
                                  HeadChoice::kClassification, HeadChoice::kTokenClassification}) {
      SCOPED_TRACE(std::string(family->model_type) + " " + std::to_string(static_cast<int>(head)));
      TempDirectory directory;
      const ModelOptions options = tiny(head, family->presets.front().name.data());
      const Status made = make_model(options, directory.path());
      const bool takes_images = family->presets.front().spec.takes_images();
      const bool generates = family->make_decoder != nullptr;
      if ((head == HeadChoice::kPooler && family->heads.pooler.empty()) ||
          (generates && head != HeadChoice::kNone) ||
          (takes_images &&
           (head == HeadChoice::kEmbedding || head == HeadChoice::kTokenClassification))) {
        EXPECT_EQ(made.error().code, Code::kInvalidArgument);
        continue;
      }
      ASSERT_TRUE(made) << made.error().message;
      const auto opened = backbone::open_model(directory.path());
      ASSERT_TRUE(opened) << opened.error().message;
      EXPECT_EQ(opened->spec, options.spec);
      EXPECT_EQ(opened->images.has_value(), takes_images);
      EXPECT_EQ(opened->tokenizer == nullptr, takes_images);
      testing::PlainDevice device;
      const auto kinds = family->weight_kinds(opened->spec);
      const auto store = model::WeightStore::create(device, kinds, 1).value();
      const Status loaded =
          store->load(store->acquire().value(), kinds, opened->checkpoint, nullptr);
      EXPECT_TRUE(loaded) << loaded.error().message;
      const auto loaded_head = model::load_head(device, opened->head, opened->checkpoint);
      EXPECT_TRUE(loaded_head) << loaded_head.error().message;
    }
  }
}

TEST(MakeModel, WeightsAreSeededAndOfSaneScale) {
  TempDirectory a, b, c;
  ModelOptions options = tiny(HeadChoice::kNone);
  ASSERT_TRUE(make_model(options, a.path()));
  ASSERT_TRUE(make_model(options, b.path()));
  options.seed = 2;
  ASSERT_TRUE(make_model(options, c.path()));
  EXPECT_EQ(a.read("model.safetensors"), b.read("model.safetensors"));
  EXPECT_NE(a.read("model.safetensors"), c.read("model.safetensors"));
  const auto checkpoint = model::Checkpoint::open(a.path()).value();
  const auto words = checkpoint.read("embeddings.word_embeddings.weight", {3000, 32}).value();
  double sum = 0, square = 0;
  for (uint64_t i = 0; i < 96000; ++i) {
    sum += words.view.at(i);
    square += words.view.at(i) * words.view.at(i);
  }
  EXPECT_NEAR(sum / 96000, 0, 3e-4);
  EXPECT_NEAR(std::sqrt(square / 96000), 0.02, 3e-4);
  EXPECT_EQ(checkpoint.read("embeddings.LayerNorm.weight", {32}).value().view.at(7), 1);
  EXPECT_EQ(checkpoint.read("embeddings.LayerNorm.bias", {32}).value().view.at(7), 0);
}

TEST(MakeModel, VocabulariesOfAnySizeHaveDistinctTokens) {
  for (uint32_t size : {5u, 6u, 100u, 131u, 999u, 1000u, 5000u, 30522u, 60000u}) {
    const std::vector<std::string> tokens = make_vocabulary(size);
    EXPECT_EQ(tokens.size(), size);
    EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), size);
    EXPECT_EQ(tokens[0], "[PAD]");
    EXPECT_EQ(tokens[size < 1000 ? 2 : 101], "[CLS]");
  }
}

TEST(MakeModel, EnglishTextHasFewPiecesAndNoUnknowns) {
  TempDirectory directory;
  ModelOptions options = tiny(HeadChoice::kNone);
  options.spec.vocab = 30522;
  ASSERT_TRUE(make_model(options, directory.path()));
  const auto opened = backbone::open_model(directory.path()).value();
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  const std::string text =
      "The quick brown fox jumps over the lazy dog, and nobody complained about unreasonably "
      "transparent microprocessors in 2024!";
  ASSERT_EQ(opened.tokenizer->encode(text, std::nullopt, {}, ids, types), text::EncodeStatus::kOk);
  EXPECT_EQ(std::ranges::count(ids, 100), 0);  // [UNK]
  EXPECT_EQ(ids.front(), 101);
  EXPECT_EQ(ids.back(), 102);
  EXPECT_LT(ids.size(), 50u);  // 20 words and marks
}

TEST(MakeModel, WrongOptionsAreRefused) {
  TempDirectory directory;
  ModelOptions options = tiny(HeadChoice::kNone);
  options.spec.heads = 3;
  EXPECT_EQ(make_model(options, directory.file("x")).error().code, Code::kInvalidArgument);
  options = tiny(HeadChoice::kNone);
  options.spec.vocab = 4;
  EXPECT_EQ(make_model(options, directory.file("x")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(parse_head("two").error().code, Code::kNotFound);
  ASSERT_TRUE(make_model(tiny(HeadChoice::kNone), directory.path()));
  EXPECT_EQ(make_model(tiny(HeadChoice::kNone), "/proc/itif").error().code, Code::kPermission);
}

// A tenant may serve what the directory holds.
TEST(MakeModel, ADirectoryWithAModelOrAnAdapterIsRefused) {
  TempDirectory model, adapter;
  const ModelOptions options = tiny(HeadChoice::kNone);
  const AdapterOptions adapter_options = {.spec = options.spec};
  ASSERT_TRUE(make_model(options, model.path()));
  ASSERT_TRUE(make_adapter(adapter_options, adapter.path()));
  for (const TempDirectory* directory : {&model, &adapter}) {
    EXPECT_EQ(make_model(options, directory->path()).error().code, Code::kAlreadyExists);
    EXPECT_EQ(make_adapter(adapter_options, directory->path()).error().code, Code::kAlreadyExists);
    EXPECT_NE(std::filesystem::exists(directory->file("config.json")),
              std::filesystem::exists(directory->file("adapter_config.json")));
  }
}

}  // namespace
}  // namespace itif::mkmodel
