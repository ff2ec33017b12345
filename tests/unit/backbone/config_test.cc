#include "backbone/open_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "support/temp_directory.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec, model::check_fits;

nlohmann::json bert_base() {
  return {{"model_type", "bert"},          {"num_hidden_layers", 12},   {"hidden_size", 768},
          {"num_attention_heads", 12},     {"intermediate_size", 3072}, {"vocab_size", 30522},
          {"max_position_embeddings", 512}};
}

TEST(Config, BertIsReadWithItsDefaults) {
  const BackboneSpec spec = parse_backbone_spec(bert_base(), "config.json").value();
  EXPECT_EQ(spec.family, "bert");
  EXPECT_EQ(spec.layers, 12u);
  EXPECT_EQ(spec.hidden, 768u);
  EXPECT_EQ(spec.head_size(), 64u);
  EXPECT_EQ(spec.type_vocab, 2u);
  EXPECT_EQ(spec.activation, kernels::Activation::kGelu);
  EXPECT_FLOAT_EQ(spec.layer_norm_eps, 1e-12f);
  EXPECT_EQ(signature(spec), "bert-12x768-12-3072-gelu-1e-12");
  EXPECT_EQ(describe(spec),
            "bert 12x768, 12 heads, intermediate 3072, vocabulary 30522, 512 positions");
}

TEST(Config, ActivationNamesFollowTransformers) {
  using kernels::Activation;
  EXPECT_EQ(parse_activation("gelu_new", "f").value(), Activation::kGeluTanh);
  EXPECT_EQ(parse_activation("gelu_pytorch_tanh", "f").value(), Activation::kGeluTanh);
  EXPECT_EQ(parse_activation("relu", "f").value(), Activation::kRelu);
  EXPECT_EQ(parse_activation("mish", "f").error().code, Code::kUnsupported);
}

TEST(Config, WrongFieldsAreRefusedByName) {
  const struct {
    const char* key;
    nlohmann::json value;  // discarded: the key is removed
    Code code;
    std::string expected;
  } rows[] = {
      {"model_type", nullptr, Code::kUnsupported,
       "'model_type' must be one of albert, bert, distilbert, marian, roberta, vit, found nothing"},
      {"model_type", "llama", Code::kUnsupported, "found \"llama\""},
      {"model_type", 3, Code::kInvalidArgument, "'model_type' must be a string"},
      {"hidden_size", nullptr, Code::kInvalidArgument, "'hidden_size' must be an integer"},
      {"hidden_size", 770, Code::kInvalidArgument,
       "multiple of 'num_attention_heads' (12), found 770"},
      {"hidden_size", 0, Code::kInvalidArgument, "'hidden_size'"},
      {"hidden_size", -768, Code::kInvalidArgument, "'hidden_size'"},
      {"hidden_size", 768.0, Code::kInvalidArgument, "'hidden_size'"},
      {"hidden_size", "768", Code::kInvalidArgument, "'hidden_size'"},
      {"hidden_size", 1u << 31, Code::kInvalidArgument, "'hidden_size'"},
      {"num_attention_heads", 2, Code::kUnsupported, "at most 256, found 384"},
      {"num_hidden_layers", 0, Code::kInvalidArgument, "'num_hidden_layers'"},
      {"num_hidden_layers", 1'000'000, Code::kInvalidArgument, "'num_hidden_layers'"},
      {"intermediate_size", nullptr, Code::kInvalidArgument, "'intermediate_size'"},
      {"vocab_size", 4'000'000'000u, Code::kInvalidArgument, "'vocab_size'"},
      {"max_position_embeddings", nullptr, Code::kInvalidArgument, "'max_position_embeddings'"},
      {"type_vocab_size", 1000, Code::kInvalidArgument, "'type_vocab_size'"},
      {"layer_norm_eps", -1, Code::kInvalidArgument, "'layer_norm_eps'"},
      {"hidden_act", "mish", Code::kUnsupported, "'hidden_act' must be gelu"},
      {"position_embedding_type", "relative_key", Code::kUnsupported, "found \"relative_key\""},
      {"is_decoder", true, Code::kUnsupported, "'is_decoder' must be false"},
      {"add_cross_attention", true, Code::kUnsupported, "'add_cross_attention' must be false"},
      {"quantization_config",
       {{"quant_method", "gptq"}},
       Code::kUnsupported,
       "'quantization_config' must be null: quantized weights are not supported, found {"},
  };
  for (const auto& row : rows) {
    nlohmann::json config = bert_base();
    config[row.key] = row.value;
    const auto result = parse_backbone_spec(config, "config.json");
    ASSERT_FALSE(result) << row.key << row.value;
    EXPECT_EQ(result.error().code, row.code) << result.error().message;
    EXPECT_NE(result.error().message.find(row.expected), std::string::npos)
        << result.error().message;
    EXPECT_EQ(result.error().message.find("config.json: "), 0u);
  }
}

TEST(Config, KeysThatTheLibraryNeverReadRefuseNothing) {
  const struct {
    const char *preset, *key;
    nlohmann::json value;
  } rows[] = {
      {"bert-base", "torch_dtype", "float16"},
      {"bert-base", "quantization_config", nullptr},
      {"bert-base", "normalize_before", true},
      {"albert-base", "is_decoder", true},
      {"distilbert-base", "is_decoder", true},
      {"distilbert-base", "position_embedding_type", "relative_key"},
      {"marian", "normalize_before", true},
      {"marian", "normalize_embedding", true},
      {"marian", "add_final_layer_norm", true},
      {"marian", "add_bias_logits", true},
      {"marian", "static_position_embeddings", false},
      {"marian", "is_decoder", true},
      {"marian", "add_cross_attention", true},
      {"marian", "position_embedding_type", "relative_key"},
      {"marian", "torch_dtype", "float16"},
  };
  for (const auto& row : rows) {
    const BackboneSpec& preset = find_preset(row.preset).value()->spec;
    nlohmann::json config = find_family(preset.family).value()->config(preset);
    config[row.key] = row.value;
    const auto spec = parse_backbone_spec(config, "config.json");
    ASSERT_TRUE(spec) << row.preset << ": " << spec.error().message;
    EXPECT_EQ(*spec, preset);
  }
}

TEST(Config, MarianLayoutsThatTheLibraryRunsDifferentlyAreRefused) {
  for (const char* key :
       {"is_encoder_decoder", "share_encoder_decoder_embeddings", "tie_word_embeddings"}) {
    nlohmann::json config =
        find_family("marian").value()->config(find_preset("marian").value()->spec);
    config[key] = false;
    const auto spec = parse_backbone_spec(config, "config.json");
    ASSERT_FALSE(spec) << key;
    EXPECT_NE(spec.error().message.find(std::string("'") + key + "' must be true"),
              std::string::npos)
        << spec.error().message;
  }
}

// Each family must read back the config.json that it writes.
TEST(Config, PresetsOfAllFamiliesAreReadBack) {
  size_t count = 0;
  for (const Family* family : families()) {
    for (const Preset& preset : family->presets) {
      SCOPED_TRACE(preset.name);
      const nlohmann::json config = family->config(preset.spec);
      const auto spec = parse_backbone_spec(config, "config.json");
      ASSERT_TRUE(spec) << spec.error().message;
      EXPECT_EQ(*spec, preset.spec);
      EXPECT_EQ(find_preset(preset.name).value()->spec, preset.spec);
      ++count;
    }
  }
  EXPECT_GE(count, 15u);
  EXPECT_NE(preset_names().find("albert-large, "), std::string::npos);
  const auto unknown = find_preset("bert-huge");
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_NE(unknown.error().message.find("roberta-base"), std::string::npos);
}

TEST(Config, FieldsOfOneFamilyAreCheckedToo) {
  nlohmann::json config =
      find_family("albert").value()->config(find_preset("albert-base").value()->spec);
  const BackboneSpec group = parse_backbone_spec(config, "config.json").value();
  EXPECT_EQ(signature(group), "albert-12x768-12-3072-gelu_tanh-1e-12-128-1-1");
  config["embedding_size"] = 64;
  EXPECT_EQ(check_fits(group, parse_backbone_spec(config, "config.json").value()).error().message,
            "embedding_size: group has 128, model has 64");
  config["num_hidden_groups"] = 13;
  EXPECT_NE(parse_backbone_spec(config, "config.json").error().message.find("'num_hidden_groups'"),
            std::string::npos);

  config = find_family("roberta").value()->config(find_preset("roberta-base").value()->spec);
  EXPECT_EQ(parse_backbone_spec(config, "config.json").value().max_tokens(), 512u);
  config["pad_token_id"] = 513;
  EXPECT_NE(parse_backbone_spec(config, "config.json").error().message.find("positions start"),
            std::string::npos);

  config = find_family("distilbert").value()->config(find_preset("distilbert-base").value()->spec);
  config.erase("dim");
  EXPECT_NE(parse_backbone_spec(config, "config.json").error().message.find("'dim'"),
            std::string::npos);
}

TEST(Config, DirectoriesAreReadByTheirConfig) {
  testing::TempDirectory directory;
  EXPECT_EQ(read_backbone_spec(directory.path()).error().code, Code::kNotFound);
  directory.write("config.json", bert_base().dump());
  EXPECT_EQ(read_backbone_spec(directory.path()).value().layers, 12u);
  directory.write("config.json", "{");
  EXPECT_EQ(read_backbone_spec(directory.path()).error().code, Code::kCorrupt);
}

TEST(Spec, EveryDifferenceIsNamed) {
  const BackboneSpec group = parse_backbone_spec(bert_base(), "config.json").value();
  EXPECT_TRUE(check_fits(group, group));
  BackboneSpec smaller = group;
  smaller.vocab = 100;
  smaller.max_positions = 64;
  smaller.type_vocab = 1;
  EXPECT_TRUE(check_fits(group, smaller));
  const struct {
    void (*change)(BackboneSpec&);
    const char* message;
  } rows[] = {
      {[](BackboneSpec& s) { s.family = "vit"; }, "model_type: group has bert, model has vit"},
      {[](BackboneSpec& s) { s.layers = 6; }, "num_hidden_layers: group has 12, model has 6"},
      {[](BackboneSpec& s) { s.hidden = 384; }, "hidden_size: group has 768, model has 384"},
      {[](BackboneSpec& s) { s.heads = 6; }, "num_attention_heads: group has 12, model has 6"},
      {[](BackboneSpec& s) { s.intermediate = 1; },
       "intermediate_size: group has 3072, model has 1"},
      {[](BackboneSpec& s) { s.activation = kernels::Activation::kRelu; },
       "hidden_act: group has gelu, model has relu"},
      {[](BackboneSpec& s) { s.layer_norm_eps = 1e-5f; },
       "layer_norm_eps: group has 1e-12, model has 1e-05"},
      {[](BackboneSpec& s) { s.vocab = 30523; },
       "vocab_size: group has room for 30522, model has 30523"},
      {[](BackboneSpec& s) { s.max_positions = 513; },
       "max_position_embeddings: group has room for 512, model has 513"},
      {[](BackboneSpec& s) { s.type_vocab = 3; },
       "type_vocab_size: group has room for 2, model has 3"},
  };
  for (const auto& row : rows) {
    BackboneSpec model = group;
    row.change(model);
    const auto result = check_fits(group, model);
    ASSERT_FALSE(result) << row.message;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_EQ(result.error().message, row.message);
  }
  BackboneSpec two = group;
  two.layers = 6;
  two.hidden = 384;
  EXPECT_EQ(
      check_fits(group, two).error().message,
      "num_hidden_layers: group has 12, model has 6; hidden_size: group has 768, model has 384");
}

}  // namespace
}  // namespace itif::backbone
