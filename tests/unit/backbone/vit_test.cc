// ViT's config.json and weights.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "make_model.h"
#include "support/plain_device.h"
#include "support/temp_directory.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec;

nlohmann::json vit_base() {
  return {{"model_type", "vit"},
          {"num_hidden_layers", 12},
          {"hidden_size", 768},
          {"num_attention_heads", 12},
          {"intermediate_size", 3072}};
}

TEST(VitConfig, IsReadWithItsDefaults) {
  const BackboneSpec spec = parse_backbone_spec(vit_base(), "config.json").value();
  EXPECT_EQ(spec, find_preset("vit-base").value()->spec);
  EXPECT_TRUE(spec.takes_images());
  EXPECT_EQ(spec.max_tokens(), 197u);
  EXPECT_EQ(signature(spec), "vit-12x768-12-3072-gelu-1e-12-224x224x3-16-1");
  EXPECT_EQ(describe(spec),
            "vit 12x768, 12 heads, intermediate 3072, images 224x224x3 in patches of 16");
}

TEST(VitConfig, SidesMayDifferAndPatchesMayLeavePixelsOut) {
  nlohmann::json config = vit_base();
  config["image_size"] = {29, 20};
  config["patch_size"] = 7;
  config["num_channels"] = 1;
  config["qkv_bias"] = false;
  const BackboneSpec spec = parse_backbone_spec(config, "config.json").value();
  EXPECT_EQ(spec.image, (model::ImageInput{29, 20, 1, 7}));
  EXPECT_EQ(spec.max_tokens(), 4u * 2 + 1);
  const Family* family = find_family("vit").value();
  EXPECT_EQ(family->parse(family->config(spec), "again").value(), spec);
}

TEST(VitConfig, WrongFieldsAreRefusedByName) {
  const struct {
    const char* key;
    nlohmann::json value;
    const char* expected;
  } rows[] = {
      {"image_size", 0, "'image_size'"},
      {"image_size", 5000, "'image_size'"},
      {"image_size", {224}, "'image_size' must be an integer or two, from 1 to 4096, found [224]"},
      {"image_size", {224, -1}, "'image_size'"},
      {"image_size", "224", "'image_size'"},
      {"patch_size", 0, "'patch_size'"},
      {"patch_size", {16, 16}, "'patch_size'"},
      {"patch_size", 225, "'patch_size' must cut 'image_size' (224x224) into 1 to 65535 patches"},
      {"num_channels", 17, "'num_channels'"},
      {"qkv_bias", 1, "'qkv_bias'"},
      {"num_hidden_layers", nullptr, "'num_hidden_layers'"},
  };
  for (const auto& row : rows) {
    nlohmann::json config = vit_base();
    config[row.key] = row.value;
    const auto spec = parse_backbone_spec(config, "config.json");
    ASSERT_FALSE(spec) << row.key;
    EXPECT_EQ(spec.error().code, Code::kInvalidArgument);
    EXPECT_NE(spec.error().message.find(row.expected), std::string::npos) << spec.error().message;
  }
  nlohmann::json config = vit_base();
  config["image_size"] = 4096;
  config["patch_size"] = 1;
  EXPECT_FALSE(parse_backbone_spec(config, "config.json"));
}

TEST(VitConfig, GroupsTakeImagesOfOneSize) {
  const BackboneSpec group = parse_backbone_spec(vit_base(), "config.json").value();
  nlohmann::json config = vit_base();
  config["image_size"] = {224, 160};
  config["patch_size"] = 32;
  config["qkv_bias"] = false;
  const Status fits = check_fits(group, parse_backbone_spec(config, "config.json").value());
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().message,
            "image_size: group has 224x224, model has 224x160; patch_size: group has 16, model has "
            "32; qkv_bias: group has 1, model has 0");
}

// ViTModel's pooler has an activation of its own; a classifier has no pooler and never reads the
// key.
TEST(Vit, OtherPoolerActivationsAreRefusedByName) {
  mkmodel::ModelOptions options;
  options.spec = find_preset("vit-tiny").value()->spec;
  options.spec.layers = 1;
  for (const auto& [head, is_refused] : {std::pair(mkmodel::HeadChoice::kPooler, true),
                                         {mkmodel::HeadChoice::kClassification, false}}) {
    options.head = head;
    testing::TempDirectory directory;
    ASSERT_TRUE(mkmodel::make_model(options, directory.path()));
    const std::string path = directory.file("config.json");
    nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
    for (const auto& [activation, is_known] : {std::pair("tanh", true), {"gelu", false}}) {
      config["pooler_act"] = activation;
      std::ofstream(path) << config;
      const auto opened = open_model(directory.path());
      EXPECT_EQ(opened.has_value(), is_known || !is_refused) << activation;
      if (opened) continue;
      EXPECT_NE(opened.error().message.find("'pooler_act'"), std::string::npos);
    }
  }
}

// Loading zeroes a bias that the architecture omits, even in a slot that was used before.
TEST(Vit, MissingBiasesAreZero) {
  mkmodel::ModelOptions options;
  options.spec = find_preset("vit-tiny").value()->spec;
  options.spec.layers = 1;
  options.spec.own = {{"qkv_bias", uint64_t{0}}};
  testing::TempDirectory directory;
  ASSERT_TRUE(mkmodel::make_model(options, directory.path()));
  const auto opened = open_model(directory.path());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->checkpoint.find("encoder.layer.0.attention.attention.query.bias"), nullptr);
  testing::PlainDevice device;
  const auto kinds = opened->family->weight_kinds(opened->spec);
  const auto store = model::WeightStore::create(device, kinds, 1).value();
  const uint32_t slot = store->acquire().value();
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name != "layer 0 attention.qkv bias") continue;
    auto* bias = reinterpret_cast<float*>(store->slab(i).at(slot));
    std::fill_n(bias, 3 * 192, 5.0f);
    ASSERT_TRUE(store->load(slot, kinds, opened->checkpoint, nullptr));
    EXPECT_EQ(std::count(bias, bias + 3 * 192, 0.0f), 3 * 192);
    return;
  }
  FAIL() << "no such kind";
}

}  // namespace
}  // namespace itif::backbone
