// Adapters' files: settings that are implemented or refused by name, damaged and hostile files.
#include "model/adapter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/safetensors_text.h"
#include "support/temp_directory.h"

namespace itif::model {
namespace {

using nlohmann::json;

const json kConfig = {
    {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}, {"target_modules", {"query", "value"}}};

Result<AdapterConfig> parse(const json& changes, const json& base = kConfig) {
  json config = base;
  for (const auto& item : changes.items()) config[item.key()] = item.value();
  return parse_adapter_config(config, "adapter_config.json");
}

TEST(AdapterConfig, TakesRankAndScaleOfEachModule) {
  const auto config = parse({{"rank_pattern", {{"layer.1.query", 5}, {"^a.value", 7}}},
                             {"alpha_pattern", {{"a\\.value", 14}, {"key", 3}}}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rank_of("bert.layer.1.query", "").value(), 5u);
  EXPECT_EQ(config->rank_of("bert.layer.11.query", "").value(), 2u);
  EXPECT_EQ(config->rank_of("layer.1.query", "").value(), 5u);
  EXPECT_EQ(config->rank_of("player.1.query", "").value(), 2u);
  EXPECT_EQ(config->rank_of("a.value", "").value(), 7u);
  EXPECT_EQ(config->rank_of("b.a.value", "").value(), 2u);
  EXPECT_EQ(config->scale_of("bert.layer.0.query", 2, "").value(), 3.0);
  EXPECT_EQ(config->scale_of("b.a.value", 2, "").value(), 7.0);
  const auto stable = parse({{"use_rslora", true}, {"r", 16}, {"lora_alpha", 8}});
  ASSERT_TRUE(stable) << stable.error().message;
  EXPECT_EQ(stable->scale_of("query", 16, "").value(), 2.0);
}

TEST(AdapterConfig, RefusesSeveralValuesForAModule) {
  const auto config = parse({{"rank_pattern", {{"query", 5}, {"layer.1.query", 7}}}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rank_of("layer.2.query", "").value(), 5u);
  const auto refused = config->rank_of("layer.1.query", "c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("'rank_pattern'"), std::string::npos);
}

struct Refused {
  const char* key;
  json value;
};

class RefusedSettings : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedSettings, NamesTheSetting) {
  const auto& [key, value] = GetParam();
  const auto config = parse({{key, value}});
  ASSERT_FALSE(config) << key;
  EXPECT_NE(config.error().message.find(std::string("'") + key + "'"), std::string::npos)
      << config.error().message;
  EXPECT_NE(config.error().message.find("adapter_config.json"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedSettings,
    ::testing::Values(
        Refused{"peft_type", "IA3"}, Refused{"peft_type", "ADALORA"}, Refused{"peft_type", nullptr},
        Refused{"r", 0}, Refused{"r", 1025}, Refused{"r", "8"}, Refused{"r", 1.5},
        Refused{"lora_alpha", "a"}, Refused{"lora_alpha", 1e300},
        Refused{"target_modules", nullptr}, Refused{"target_modules", json::array()},
        Refused{"target_modules", {1}}, Refused{"target_modules", 5},
        Refused{"modules_to_save", "classifier"}, Refused{"use_rslora", 1}, Refused{"bias", "some"},
        Refused{"lora_bias", true}, Refused{"use_qalora", true},
        Refused{"layer_replication", {{0, 2}}}, Refused{"target_parameters", {"x"}},
        Refused{"fan_in_fan_out", true}, Refused{"megatron_config", {{"a", 1}}},
        Refused{"trainable_token_indices", {1}}, Refused{"alora_invocation_tokens", {1, 2}},
        Refused{"arrow_config", {{"a", 1}}}, Refused{"use_bdlora", {{"a", 1}}},
        Refused{"init_lora_weights", "pissa"}, Refused{"init_lora_weights", "pissa_niter_4"},
        Refused{"init_lora_weights", "olora"}, Refused{"init_lora_weights", "loftq"},
        Refused{"init_lora_weights", "corda"}, Refused{"a_later_setting", 3},
        Refused{"rank_pattern", {{"layer\\.[0-9]", 4}}}, Refused{"alpha_pattern", {{"(a+)+$", 4}}},
        Refused{"rank_pattern", 3}, Refused{"r", nullptr}, Refused{"lora_alpha", nullptr},
        Refused{"bias", nullptr}, Refused{"use_rslora", nullptr}, Refused{"use_dora", nullptr},
        Refused{"fan_in_fan_out", nullptr}, Refused{"init_lora_weights", nullptr},
        Refused{"lora_dropout", nullptr}, Refused{"rank_pattern", nullptr},
        Refused{"alpha_pattern", nullptr}, Refused{"rank_pattern", {{"query", nullptr}}},
        Refused{"alpha_pattern", {{"query", nullptr}}}),
    [](const auto& info) { return std::to_string(info.index) + "_" + info.param.key; });

TEST(AdapterConfig, TakesSettingsWithoutEffect) {
  for (const auto& [key, value] : {std::pair<const char*, json>{"lora_dropout", 0.5},
                                   {"revision", "main"},
                                   {"inference_mode", true},
                                   {"layers_to_transform", {0, 1}},
                                   {"eva_config", {{"a", 1}}},
                                   {"layers_to_transform", nullptr},
                                   {"modules_to_save", nullptr},
                                   {"task_type", nullptr},
                                   {"use_qalora", false},
                                   {"lora_bias", nullptr},
                                   {"a_later_setting", json::object()},
                                   {"init_lora_weights", "gaussian"},
                                   {"fan_in_fan_out", false}})
    EXPECT_TRUE(parse({{key, value}})) << key;
}

class AdapterFiles : public ::testing::Test {
 protected:
  // Writes an adapter of these tensors, of zeros.
  Result<Adapter> open(const json& config,
                       const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors) {
    folder_.write("a/adapter_config.json", config.dump());
    json header = json::object();
    uint64_t end = 0;
    for (const auto& [name, dims] : tensors) {
      uint64_t bytes = 4;
      for (const uint64_t dim : dims) bytes *= dim;
      header[name] = {{"dtype", "F32"}, {"shape", dims}, {"data_offsets", {end, end + bytes}}};
      end += bytes;
    }
    folder_.write("a/adapter_model.safetensors",
                  testing::safetensors(header.dump(), std::string(end, '\0')));
    return Adapter::open(folder_.file("a"));
  }
  void expect_refused(const json& config,
                      const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors,
                      const std::string& part) {
    const auto adapter = open(config, tensors);
    ASSERT_FALSE(adapter) << part;
    EXPECT_NE(adapter.error().message.find(part), std::string::npos) << adapter.error().message;
  }
  static std::string tensor(const std::string& name) { return "base_model.model." + name; }

  testing::TempDirectory folder_;
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> good_ = {
      {tensor("l.query.lora_A.weight"), {2, 6}},
      {tensor("l.query.lora_B.weight"), {4, 2}},
      {tensor("l.value.lora_A.weight"), {2, 6}},
      {tensor("l.value.lora_B.weight"), {4, 2}}};
};

TEST_F(AdapterFiles, ListsModulesAndSavedTensors) {
  auto tensors = good_;
  tensors.emplace_back(tensor("classifier.weight"), std::vector<uint64_t>{3, 6});
  tensors.emplace_back(tensor("pre_classifier.bias"), std::vector<uint64_t>{6});
  json config = kConfig;
  config["task_type"] = "SEQ_CLS";
  const auto adapter = open(config, tensors);
  ASSERT_TRUE(adapter) << adapter.error().message;
  ASSERT_EQ(adapter->modules().size(), 2u);
  EXPECT_EQ(adapter->modules()[0].name, "l.query");
  EXPECT_EQ(adapter->modules()[0].rank, 2u);
  EXPECT_EQ(adapter->modules()[0].scale, 3.0);
  EXPECT_EQ(adapter->saved(),
            (std::vector<std::string>{"classifier.weight", "pre_classifier.bias"}));
  EXPECT_TRUE(adapter->read(adapter->modules()[0], 4, 6));
  const auto other = adapter->read(adapter->modules()[0], 4, 5);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("expected [2, 5], found [2, 6]"), std::string::npos);
}

TEST_F(AdapterFiles, RefusesTensorsThatWouldBeLeftOut) {
  const auto with = [&](const std::string& name, std::vector<uint64_t> dims) {
    auto tensors = good_;
    tensors.emplace_back(name, std::move(dims));
    return tensors;
  };
  expect_refused(kConfig, with("l.key.lora_A.weight", {2, 6}), "begins with base_model.model.");
  expect_refused(kConfig, with(tensor("classifier.weight"), {3, 6}), "'modules_to_save'");
  expect_refused(kConfig, with(tensor("l.query.bias"), {4}), "'modules_to_save'");
  expect_refused(kConfig, with(tensor("w.lora_embedding_A"), {2, 9}), "embeddings");
  expect_refused(kConfig, with(tensor("l.query.lora_B.bias"), {4}), "'lora_bias'");
  expect_refused(kConfig, with(tensor("l.query.lora_magnitude_vector"), {4}), "'use_dora'");
  expect_refused(kConfig, with(tensor("l.query.lora_C.weight"), {4}), "not supported");
  expect_refused(kConfig, with(tensor("l.key.lora_B.weight"), {4, 2}), "lora_A.weight");
  auto other = good_;
  other.emplace_back(tensor("l.key.lora_A.weight"), std::vector<uint64_t>{2, 6});
  other.emplace_back(tensor("l.key.lora_B.weight"), std::vector<uint64_t>{4, 2});
  expect_refused(kConfig, other, "'target_modules'");
}

TEST_F(AdapterFiles, RefusesATensorThatIsThereTwice) {
  auto tensors = good_;
  tensors.emplace_back(tensor("classifier.base_layer.weight"), std::vector<uint64_t>{3, 6});
  tensors.emplace_back(tensor("classifier.weight"), std::vector<uint64_t>{3, 6});
  json saves = kConfig;
  saves["modules_to_save"] = {"classifier"};
  expect_refused(saves, tensors,
                 "tensor \"classifier.weight\" is there twice, as "
                 "\"base_model.model.classifier.base_layer.weight\" and as "
                 "\"base_model.model.classifier.weight\"");
  json dora = kConfig;
  dora["use_dora"] = true;
  tensors = good_;
  for (const char* module : {"l.query", "l.value"})
    for (const char* suffix : {".lora_magnitude_vector", ".lora_magnitude_vector.weight"})
      tensors.emplace_back(tensor(module) + suffix, std::vector<uint64_t>{4});
  expect_refused(dora, tensors, "the magnitude of module \"l.query\" is there twice");
}

TEST_F(AdapterFiles, RefusesMissingAndMisshapenTensors) {
  expect_refused(kConfig, {}, "found none");
  expect_refused(kConfig, {good_[0], good_[1]}, "\"value\"");
  expect_refused(kConfig, {good_[0], good_[2], good_[3]}, "l.query.lora_B.weight");
  auto wrong = good_;
  wrong[0].second = {3, 6};
  expect_refused(kConfig, wrong, "expected [2, …]");
  wrong = good_;
  wrong[1].second = {4, 3};
  expect_refused(kConfig, wrong, "expected […, 2]");
  wrong = good_;
  wrong[1].second = {8};
  expect_refused(kConfig, wrong, "expected […, 2]");
  wrong[1].second = {};
  expect_refused(kConfig, wrong, "expected […, 2]");
  json dora = kConfig;
  dora["use_dora"] = true;
  expect_refused(dora, good_, "lora_magnitude_vector");
}

TEST_F(AdapterFiles, RefusesOtherFiles) {
  EXPECT_FALSE(Adapter::is_in(folder_.file("a")));
  const auto none = Adapter::open(folder_.file("a"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  folder_.write("a/adapter_config.json", kConfig.dump());
  EXPECT_TRUE(Adapter::is_in(folder_.file("a")));
  EXPECT_EQ(Adapter::open(folder_.file("a")).error().code, Code::kNotFound);
  folder_.write("a/adapter_model.bin", "x");
  const auto pickled = Adapter::open(folder_.file("a"));
  EXPECT_EQ(pickled.error().code, Code::kUnsupported);
  EXPECT_NE(pickled.error().message.find("safe_serialization=True"), std::string::npos);
  folder_.write("a/adapter_model.safetensors", "x");
  EXPECT_EQ(Adapter::open(folder_.file("a")).error().code, Code::kCorrupt);
  folder_.write("a/adapter_config.json", "{");
  EXPECT_EQ(Adapter::open(folder_.file("a")).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace itif::model
