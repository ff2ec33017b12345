#include "model/head.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "backbone/family.h"
#include "model/checkpoint.h"
#include "support/plain_device.h"
#include "support/safetensors_text.h"
#include "support/temp_directory.h"

namespace itif::model {
namespace {

using nlohmann::json;
using testing::TempDirectory;

BackboneSpec tiny() {
  BackboneSpec spec;
  spec.family = "bert";
  spec.hidden = 4;
  spec.heads = 2;
  return spec;
}

const HeadLayout& bert_heads() {
  return backbone::find_family("bert").value()->heads;
}

// Writes a checkpoint of these tensors, filled with zeros. 2-D shapes are {n, k}.
void write_weights(const TempDirectory& directory, const std::string& folder,
                   const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const auto& [name, dims] : tensors) {
    uint64_t bytes = 4;
    for (uint64_t dim : dims) bytes *= dim;
    header += (offset || header.size() > 1 ? "," : "") +
              testing::entry(name, "F32", json(dims).dump(), offset, offset + bytes);
    offset += bytes;
  }
  directory.write(folder + "model.safetensors",
                  testing::safetensors(header + "}", std::string(offset, '\0')));
}

Result<HeadSpec> read(const TempDirectory& directory, const json& config) {
  ITIF_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(directory.path()));
  return read_head_spec(directory.path(), config, bert_heads(), tiny(), checkpoint);
}

const std::vector<std::pair<std::string, std::vector<uint64_t>>> kPooler = {
    {"pooler.dense.weight", {4, 4}}, {"pooler.dense.bias", {4}}};
const std::vector<std::pair<std::string, std::vector<uint64_t>>> kClassifier = {
    {"bert.pooler.dense.weight", {4, 4}},
    {"bert.pooler.dense.bias", {4}},
    {"classifier.weight", {3, 4}},
    {"classifier.bias", {3}}};

TEST(Head, FollowsTheArchitecture) {
  const json three = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  TempDirectory with_pooler, with_classifier;
  write_weights(with_pooler, "", kPooler);
  write_weights(with_classifier, "", kClassifier);
  const struct {
    const TempDirectory& directory;
    json config;
    std::string description;
  } rows[] = {
      {with_pooler, {{"architectures", {"BertModel"}}}, "pooler"},
      {with_pooler, json::object(), "pooler"},
      {with_pooler, {{"architectures", nullptr}}, "pooler"},
      {with_pooler, {{"architectures", json::array({"BertForMaskedLM"})}}, "pooler"},
      {with_classifier,
       {{"architectures", json::array({"BertForSequenceClassification"})}, {"id2label", three}},
       "classification (3 labels)"},
      {with_classifier,
       {{"architectures", json::array({"BertForTokenClassification"})}, {"id2label", three}},
       "token_classification (3 labels)"},
      {with_classifier, json::object(), "classification (3 labels)"},
      {with_classifier,
       {{"architectures", json::array({"BertForQuestionAnswering"})}},
       "token_classification (2 labels)"},
  };
  for (const auto& row : rows) {
    json config = row.config;
    if (config.contains("architectures") && config["architectures"].is_string())
      config["architectures"] = json::array({config["architectures"]});
    const auto head = read(row.directory, config);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ(describe(*head, tiny()), row.description) << config;
  }
}

TEST(Head, LabelsAndProblemComeFromTheConfig) {
  TempDirectory directory;
  write_weights(directory, "", kClassifier);
  const json architecture = json::array({"BertForSequenceClassification"});
  const json three = {{"0", "a"}, {"2", "c"}, {"1", "b"}};
  auto head = read(directory, {{"architectures", architecture}, {"id2label", three}}).value();
  EXPECT_EQ(head.labels, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(head.problem, Problem::kSingleLabel);
  EXPECT_EQ(head.pooler[0].weight, "bert.pooler.dense.weight");
  // Labels that the config omits get the names of transformers.
  head = read(directory, {{"architectures", architecture}}).value();
  EXPECT_EQ(head.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  head = read(directory,
              {{"architectures", architecture}, {"problem_type", "multi_label_classification"}})
             .value();
  EXPECT_EQ(head.problem, Problem::kMultiLabel);
  head = read(directory, {{"architectures", architecture}, {"id2label", {{"0", "score"}}}}).value();
  EXPECT_EQ(head.problem, Problem::kRegression);
}

TEST(Head, WrongConfigsAreRefusedByName) {
  TempDirectory directory;
  write_weights(directory, "", kClassifier);
  const json architecture = json::array({"BertForSequenceClassification"});
  json huge = json::object();
  for (int i = 0; i < 4097; ++i) huge[std::to_string(i)] = "x";
  const struct {
    json config;
    std::string expected;
  } rows[] = {
      {{{"architectures", json::array({"BertForMultipleChoice"})}},
       "found \"BertForMultipleChoice\""},
      {{{"architectures", json::array({"GPT2Model"})}}, "found \"GPT2Model\""},
      {{{"architectures", "BertModel"}}, "an array of one name"},
      {{{"architectures", json::array({"BertModel", "BertModel"})}}, "an array of one name"},
      {{{"architectures", json::array({3})}}, "an array of one name"},
      {{{"architectures", architecture}, {"id2label", json::array({"a"})}}, "'id2label'"},
      {{{"architectures", architecture}, {"id2label", json::object()}}, "'id2label'"},
      {{{"architectures", architecture}, {"id2label", {{"0", "a"}, {"2", "b"}}}}, "found no \"1\""},
      {{{"architectures", architecture}, {"id2label", {{"0", 3}}}}, "found 3"},
      {{{"architectures", architecture}, {"id2label", {{"0", std::string(300, 'x')}}}},
       "256 bytes"},
      {{{"architectures", architecture}, {"problem_type", "guessing"}}, "found \"guessing\""},
      {{{"architectures", json::array({"BertForTokenClassification"})}, {"id2label", huge}},
       "at most 4096 token labels"},
  };
  for (const auto& row : rows) {
    const auto head = read(directory, row.config);
    ASSERT_FALSE(head) << row.config;
    EXPECT_NE(head.error().message.find(row.expected), std::string::npos) << head.error().message;
    EXPECT_NE(head.error().message.find("config.json"), std::string::npos);
  }
}

TEST(Head, MissingAndMisshapenTensorsAreNamedWhenLoading) {
  testing::PlainDevice device;
  const json config = {{"architectures", json::array({"BertForSequenceClassification"})},
                       {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
  const struct {
    size_t tensor;
    std::vector<uint64_t> dims;  // empty: absent
    std::string expected;
  } rows[] = {
      {0, {}, "tensor \"bert.pooler.dense.weight\": expected [4, 4], found none"},
      {0, {4, 5}, "tensor \"bert.pooler.dense.weight\": expected [4, 4], found [4, 5]"},
      {1, {3}, "tensor \"bert.pooler.dense.bias\": expected [4], found [3]"},
      {2, {}, "tensor \"classifier.weight\": expected [3, 4], found none"},
      {2, {2, 4}, "tensor \"classifier.weight\": expected [3, 4], found [2, 4]"},
      {3, {}, "tensor \"classifier.bias\": expected [3], found none"},
  };
  for (const auto& row : rows) {
    TempDirectory directory;
    auto tensors = kClassifier;
    if (row.dims.empty())
      tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(row.tensor));
    else
      tensors[row.tensor].second = row.dims;
    write_weights(directory, "", tensors);
    const auto checkpoint = Checkpoint::open(directory.path()).value();
    const auto spec =
        read_head_spec(directory.path(), config, bert_heads(), tiny(), checkpoint).value();
    const auto head = load_head(device, spec, checkpoint);
    ASSERT_FALSE(head) << row.expected;
    EXPECT_NE(head.error().message.find(row.expected), std::string::npos) << head.error().message;
    EXPECT_EQ(device.state().live_buffers, 0u);
  }
}

const char* kModules =
    R"([{"path":"","type":"sentence_transformers.models.Transformer"},
        {"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
        {"path":"2_Dense","type":"sentence_transformers.models.Dense"},
        {"path":"3_Normalize","type":"sentence_transformers.models.Normalize"}])";
const char* kPooledModules =
    R"([{"path":"","type":"sentence_transformers.models.Transformer"},
        {"path":"p","type":"sentence_transformers.models.Pooling"}])";
const char* kDense = R"({"in_features":4,"out_features":2,"bias":true,
    "activation_function":"torch.nn.modules.activation.Tanh"})";

TEST(Head, SentenceTransformersAreEmbeddings) {
  TempDirectory directory;
  write_weights(directory, "", kPooler);
  directory.write("modules.json", kModules);
  directory.write("1_Pooling/config.json",
                  R"({"word_embedding_dimension":4,"pooling_mode_max_tokens":true})");
  directory.write("2_Dense/config.json", kDense);
  write_weights(directory, "2_Dense/", {{"linear.weight", {2, 4}}, {"linear.bias", {2}}});
  directory.write("sentence_bert_config.json", R"({"max_seq_length": 17})");
  const auto spec = read(directory, json::object()).value();
  EXPECT_EQ(spec.kind, HeadKind::kEmbedding);
  EXPECT_EQ(spec.pooling, kernels::Pooling::kMax);
  EXPECT_TRUE(spec.normalize);
  EXPECT_EQ(spec.max_text_tokens, 17u);
  EXPECT_EQ(spec.pooler.size(), 1u);  // requests may still ask for it
  EXPECT_EQ(describe(spec, tiny()), "embedding (max, unit length, 2)");
  testing::PlainDevice device;
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  const auto head = load_head(device, spec, checkpoint).value();
  ASSERT_EQ(head.dense.size(), 1u);
  EXPECT_EQ(head.dense[0].activation, kernels::Activation::kTanh);
  EXPECT_EQ(head.embedding_size(4), 2u);
  EXPECT_EQ(head.bytes, (4 * 4 + 4 + 2 * 4 + 2) * sizeof(float));
}

// As in torch.nn.Linear(…, bias=None).
TEST(Head, ANullBiasOfADenseLayerIsNone) {
  TempDirectory directory;
  write_weights(directory, "", kPooler);
  directory.write("modules.json", kModules);
  directory.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  directory.write("2_Dense/config.json", R"({"in_features":4,"out_features":2,"bias":null})");
  write_weights(directory, "2_Dense/", {{"linear.weight", {2, 4}}});
  const auto spec = read(directory, json::object()).value();
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  testing::PlainDevice device;
  const auto head = load_head(device, spec, checkpoint);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->dense.size(), 1u);
}

TEST(Head, ReadsPoolingOfBothFileVersions) {
  const struct {
    std::string config;
    kernels::Pooling pooling;
  } rows[] = {
      {R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})",
       kernels::Pooling::kFirst},
      {R"({"pooling_mode_mean_tokens":true})", kernels::Pooling::kMean},
      {R"({"pooling_mode_mean_sqrt_len_tokens":true})", kernels::Pooling::kMeanSqrtLength},
      {R"({"pooling_mode_lasttoken":true})", kernels::Pooling::kLast},
      {R"({"pooling_mode":"cls"})", kernels::Pooling::kFirst},
      {R"({"pooling_mode":"mean"})", kernels::Pooling::kMean},
      {R"({"pooling_mode":"cls","pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true})",
       kernels::Pooling::kFirst},
  };
  for (const auto& row : rows) {
    TempDirectory directory;
    write_weights(directory, "", kPooler);
    directory.write("modules.json", kPooledModules);
    directory.write("p/config.json", row.config);
    const auto spec = read(directory, json::object());
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->pooling, row.pooling) << row.config;
    EXPECT_FALSE(spec->normalize);
  }
}

// encode() puts the default prompt before each text.
TEST(Head, DefaultPromptsAreRefusedByName) {
  const struct {
    const char* config;
    bool is_refused;
  } rows[] = {
      {R"({"default_prompt_name":"query","prompts":{"query":"query: "}})", true},
      {R"({"default_prompt_name":"other","prompts":{"query":"query: "}})", true},
      {R"({"default_prompt_name":3})", true},
      {R"({"default_prompt_name":"document","prompts":{"query":"q: ","document":""}})", false},
      {R"({"default_prompt_name":null,"prompts":{"query":"query: "}})", false},
      {R"({"__version__":{"sentence_transformers":"2.7.0"}})", false},
  };
  for (const auto& row : rows) {
    TempDirectory directory;
    write_weights(directory, "", kPooler);
    directory.write("modules.json", kPooledModules);
    directory.write("p/config.json", R"({"pooling_mode":"mean"})");
    directory.write("config_sentence_transformers.json", row.config);
    const auto spec = read(directory, json::object());
    EXPECT_EQ(!spec, row.is_refused) << row.config;
    if (spec) continue;
    EXPECT_NE(spec.error().message.find("default_prompt_name"), std::string::npos);
  }
}

// Embeddings are answered whole.
TEST(Head, TruncatedEmbeddingsAreRefusedByName) {
  TempDirectory directory;
  write_weights(directory, "", kPooler);
  directory.write("modules.json", kPooledModules);
  directory.write("p/config.json", R"({"pooling_mode":"mean"})");
  directory.write("config_sentence_transformers.json", R"({"truncate_dim":2})");
  const auto spec = read(directory, json::object());
  ASSERT_FALSE(spec);
  EXPECT_NE(spec.error().message.find("'truncate_dim' must be null, found 2"), std::string::npos);
  directory.write("config_sentence_transformers.json", R"({"truncate_dim":null})");
  EXPECT_TRUE(read(directory, json::object()));
}

// The library would replace the modules of its other kinds of model.
TEST(Head, OtherKindsOfSentenceModelsAreRefusedByName) {
  for (const char* type : {"SentenceTransformer", "SparseEncoder", "MultiVectorEncoder"}) {
    TempDirectory directory;
    write_weights(directory, "", kPooler);
    directory.write("modules.json", kPooledModules);
    directory.write("p/config.json", R"({"pooling_mode":"mean"})");
    directory.write("config_sentence_transformers.json", json{{"model_type", type}}.dump());
    const auto spec = read(directory, json::object());
    EXPECT_EQ(spec.has_value(), std::string(type) == "SentenceTransformer");
    if (spec) continue;
    EXPECT_NE(spec.error().message.find("'model_type'"), std::string::npos);
  }
}

// As sentence-transformers 6.2 writes a CrossEncoder; tests/unit/itif_run compares its scores.
class CrossEncoder : public ::testing::Test {
 protected:
  CrossEncoder() {
    write_weights(directory_, "", kClassifier);
    directory_.write("modules.json", kTransformer);
    directory_.write("config_sentence_transformers.json", R"({"model_type":"CrossEncoder"})");
    write_task("sequence-classification");
  }
  void write_task(const char* task) {
    directory_.write("sentence_bert_config.json",
                     json{{"transformer_task", task}, {"max_seq_length", 17}}.dump());
  }
  void expect_refused(const std::string& message) {
    const auto spec = read(directory_, config_);
    ASSERT_FALSE(spec) << message;
    EXPECT_EQ(spec.error().code, Code::kUnsupported);
    EXPECT_NE(spec.error().message.find(message), std::string::npos) << spec.error().message;
  }

  static constexpr const char* kTransformer =
      R"([{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"}])";
  TempDirectory directory_;
  json config_ = {{"architectures", json::array({"BertForSequenceClassification"})},
                  {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
};

TEST_F(CrossEncoder, IsAClassifier) {
  const auto spec = read(directory_, config_);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->kind, HeadKind::kClassification);
  EXPECT_EQ(spec->problem, Problem::kSingleLabel);
  EXPECT_EQ(spec->max_text_tokens, 17u);
  EXPECT_FALSE(spec->has_sigmoid_logits);
}

TEST_F(CrossEncoder, WithASigmoidHasNoClasses) {
  directory_.write("config_sentence_transformers.json",
                   R"({"model_type":"CrossEncoder","activation_fn":"torch.nn.Sigmoid"})");
  const auto spec = read(directory_, config_);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(spec->has_sigmoid_logits);
  EXPECT_EQ(spec->problem, Problem::kRegression);
  EXPECT_EQ(describe(*spec, tiny()), "classification (3 labels, sigmoid)");
}

TEST_F(CrossEncoder, OtherFilesAreRefusedByName) {
  directory_.write("modules.json", kPooledModules);
  expect_refused("modules.json: a CrossEncoder must have one module");
  directory_.write("modules.json", kTransformer);
  write_task("feature-extraction");
  expect_refused("'transformer_task' must be \"sequence-classification\" in a CrossEncoder");
  write_task("sequence-classification");
  config_["architectures"] = json::array({"BertForTokenClassification"});
  expect_refused("'architectures' must end in ForSequenceClassification");
  directory_.write("config_sentence_transformers.json", "{}");
  expect_refused("expected a Pooling module");
}

TEST(Head, WrongSentenceTransformersFilesAreRefusedByName) {
  const std::string pooling = R"({"pooling_mode_mean_tokens":true})";
  const auto modules = [](const std::string& rest) {
    return R"([{"path":"","type":"sentence_transformers.models.Transformer"})" + rest + "]";
  };
  const std::string pool = R"(,{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"})";
  const struct {
    std::string modules, pooling, dense, expected;
  } rows[] = {
      {"{}", pooling, kDense, "expected an array of modules"},
      {"[]", pooling, kDense, "expected an array of modules"},
      {"[3]", pooling, kDense, "expected modules, found 3"},
      {modules(""), pooling, kDense, "expected a Pooling module, found none"},
      {R"([{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])", pooling, kDense,
       "expected a Transformer before"},
      {R"([{"path":"0_T","type":"sentence_transformers.models.Transformer"}])", pooling, kDense,
       "in the model's own directory"},
      {modules(R"(,{"path":"../x","type":"sentence_transformers.models.Pooling"})"), pooling,
       kDense, "'path' in the model's directory"},
      {modules(R"(,{"path":"..","type":"sentence_transformers.models.Pooling"})"), pooling, kDense,
       "'path' in the model's directory"},
      {modules(R"(,{"path":"2","type":"sentence_transformers.models.Normalize"})"), pooling, kDense,
       "expected a Pooling before"},
      {modules(R"(,{"path":"2_Dense","type":"sentence_transformers.models.Dense"})"), pooling,
       kDense, "in this order"},
      {modules(pool + pool), pooling, kDense, "in this order"},
      {modules(pool +
               R"(,{"path":"n","type":"sentence_transformers.models.Normalize"},
                          {"path":"n","type":"sentence_transformers.models.Normalize"})"),
       pooling, kDense, "nothing after Normalize"},
      {modules(pool + R"(,{"path":"w","type":"sentence_transformers.models.WordWeights"})"),
       pooling, kDense, "\"sentence_transformers.models.WordWeights\""},
      {modules(pool), "[]", kDense, "1_Pooling/config.json"},
      {modules(pool), "{}", kDense, "expected a pooling mode, found none"},
      {modules(pool), R"({"pooling_mode":"attention"})", kDense, "found \"attention\""},
      {modules(pool), R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})", kDense,
       "one pooling mode is supported"},
      {modules(pool), R"({"pooling_mode_weightedmean_tokens":true})", kDense, "not supported"},
      {modules(pool), R"({"word_embedding_dimension":5,"pooling_mode_cls_token":true})", kDense,
       "must be the hidden size 4, found 5"},
      {kModules, pooling, "{}", "'in_features'"},
      {kModules, pooling, R"({"in_features":5,"out_features":2})",
       "must be 4, the size of its input, found 5"},
      {kModules, pooling, R"({"in_features":4,"out_features":2,"activation_function":"x.Sin"})",
       "found \"x.Sin\""},
      // sentence-transformers uses Tanh instead.
      {kModules, pooling, R"({"in_features":4,"out_features":2,"activation_function":"x.ReLU"})",
       "found \"x.ReLU\""},
      {R"([{"path":"","type":"other.Transformer"}])", pooling, kDense,
       "expected a class of sentence_transformers"},
      {kModules, pooling, R"({"in_features":4,"out_features":2,"use_residual":true})",
       "'use_residual' must be false"},
      {kModules, pooling, R"({"in_features":4,"out_features":2,"module_input_name":"x"})",
       "'module_input_name' must be \"sentence_embedding\", found \"x\""},
      {kModules, pooling, R"({"in_features":4,"out_features":2,"module_output_name":"x"})",
       "2_Dense/config.json: 'module_output_name' must be"},
      {modules(pool + R"(,{"path":"3","type":"sentence_transformers.models.Normalize"})"), pooling,
       kDense, "3/config.json: 'module_output_name' must be"},
  };
  for (const auto& row : rows) {
    TempDirectory directory;
    write_weights(directory, "", kPooler);
    directory.write("modules.json", row.modules);
    directory.write("1_Pooling/config.json", row.pooling);
    directory.write("2_Dense/config.json", row.dense);
    directory.write("3/config.json", R"({"module_output_name":"x"})");
    const auto spec = read(directory, json::object());
    ASSERT_FALSE(spec) << row.modules;
    EXPECT_NE(spec.error().message.find(row.expected), std::string::npos) << row.modules << "\n"
                                                                          << spec.error().message;
  }
}

}  // namespace
}  // namespace itif::model
