// Admission and release of tenants: refusals and their messages, slots and memory. Neither disturbs
// tenants that are being served.
#include "runtime/make_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "backbone/open_model.h"
#include "base/random.h"
#include "runtime/batch/make_encoder_group.h"
#include "runtime/head_scratch.h"
#include "support/safetensors_text.h"
#include "support/small_group.h"
#include "support/test_batch.h"
#include "support/test_data.h"

namespace itif::runtime {
namespace {

using nlohmann::json;
using testing::PlainDevice;
using testing::TempDirectory;
using testing::TestRequest;

constexpr GroupOptions kOptions = {.max_tokens = 100, .max_requests = 8, .max_tenants = 3};

class GroupTest : public ::testing::Test {
 protected:
  GroupTest() : group_(make_encoder_group(device_, testing::odd_spec(), kOptions).value()) {}

  // Makes a model directory: a classifier with random weights of this seed.
  std::string make(const std::string& name, uint64_t seed,
                   const model::BackboneSpec& spec = testing::odd_spec()) {
    const std::string directory = files_.file(name);
    const Status made = mkmodel::make_model(
        testing::loud_model(spec, mkmodel::HeadChoice::kClassification, seed), directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }

  std::vector<float> logits(uint32_t slot) {
    const auto stream = device_.make_stream(group_->stream_limits()).value();
    const auto answer = testing::run_batch(
        *group_, *stream, {{.slot = slot, .ids = {1, 5, 9}, .kind = wire::ResultKind::kLogits}})[0];
    EXPECT_TRUE(answer.ok()) << answer.detail;
    return answer.floats();
  }

  PlainDevice device_;
  TempDirectory files_;
  std::unique_ptr<EncoderGroup> group_;
};

TEST_F(GroupTest, OptionsAndFamiliesAreChecked) {
  model::BackboneSpec spec = testing::odd_spec();
  EXPECT_EQ(make_group(device_, spec, {.max_tokens = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(make_group(device_, spec, {.max_requests = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(make_group(device_, spec, {.max_tenants = 0}).error().code, Code::kInvalidArgument);
  spec.family = "gpt2";
  const auto unknown = make_group(device_, spec, kOptions);
  EXPECT_EQ(unknown.error().code, Code::kUnsupported);
  EXPECT_EQ(
      unknown.error().message,
      "'model_type' must be one of albert, bert, distilbert, marian, roberta, vit, found \"gpt2\"");
}

TEST_F(GroupTest, AdmittedModelsReportTheirProperties) {
  std::vector<std::string> stages;
  double last = -1;
  const std::string directory = make("a", 1);
  const auto slot = group_->admit(directory, [&](const std::string& stage, double fraction) {
    stages.push_back(stage);
    EXPECT_GE(fraction, last);
    last = fraction;
  });
  ASSERT_EQ(slot.value(), 0u);
  EXPECT_EQ(last, 1);
  EXPECT_NE(std::ranges::find(stages, "packing layer 1 output.dense weight"), stages.end());
  const model::TenantModel* model = group_->model(0);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->directory, directory);
  EXPECT_EQ(model->max_tokens, 41u);
  EXPECT_EQ(model->max_text_tokens, 41u);
  EXPECT_EQ(model->head.spec.labels, (std::vector<std::string>{"negative", "positive"}));
  ASSERT_NE(model->tokenizer, nullptr);
  EXPECT_EQ(group_->num_tenants(), 1u);
  // Parameters of the backbone, in f32 on this device, and of the head.
  const uint64_t h = 21, i = 37;
  const uint64_t layer = 4 * h * h + 4 * h + 2 * h * i + i + h + 4 * h;
  const uint64_t parameters = (131 + 41 + 2) * h + 2 * h + 2 * layer + h * h + h + 2 * h + 2;
  EXPECT_GE(model->weight_bytes, parameters * 4);
  EXPECT_LE(model->weight_bytes, parameters * 4 + 4096);
  EXPECT_EQ(group_->weight_bytes(), model->weight_bytes);
  EXPECT_GT(group_->workspace_bytes(), 100 * (h + h + h + 3 * h) * 4);
  EXPECT_EQ(group_->model(1), nullptr);
  EXPECT_EQ(group_->model(1000), nullptr);
}

TEST_F(GroupTest, SlotsAreReusedWithoutLeaks) {
  const size_t idle_buffers = device_.state().live_buffers;
  const std::string a = make("a", 1), b = make("b", 2), c = make("c", 3), d = make("d", 4);
  ASSERT_EQ(group_->admit(a, nullptr).value(), 0u);
  ASSERT_EQ(group_->admit(b, nullptr).value(), 1u);
  ASSERT_EQ(group_->admit(c, nullptr).value(), 2u);
  const auto full = group_->admit(d, nullptr);
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
  EXPECT_NE(full.error().message.find("all 3 slots"), std::string::npos);
  const auto of_a = logits(0), of_b = logits(1), of_c = logits(2);
  EXPECT_GT(testing::max_difference(of_a, of_b), 0.01);
  group_->release(1);
  EXPECT_EQ(group_->model(1), nullptr);
  ASSERT_EQ(group_->admit(d, nullptr).value(), 1u);
  EXPECT_GT(testing::max_difference(logits(1), of_b), 0.01);
  EXPECT_EQ(logits(0), of_a);
  EXPECT_EQ(logits(2), of_c);
  group_->release(1);
  ASSERT_EQ(group_->admit(b, nullptr).value(), 1u);
  EXPECT_EQ(logits(1), of_b);
  for (uint32_t slot : {0, 1, 2}) group_->release(slot);
  EXPECT_EQ(group_->num_tenants(), 0u);
  EXPECT_EQ(group_->weight_bytes(), 0u);
  EXPECT_EQ(device_.state().live_buffers, idle_buffers);
  EXPECT_EQ(device_.state().live_slots, 0u);
}

// Each kind makes its executor; only an encoder group's takes every planner.
TEST_F(GroupTest, TheFamilyDecidesTheKind) {
  const auto generating =
      backbone::read_backbone_spec(testing::test_data("generation/beams-4")).value();
  for (const model::BackboneSpec& spec : {testing::odd_spec(), generating}) {
    const bool generates = spec.family == "marian";
    const auto group = make_group(device_, spec, kOptions).value();
    EXPECT_EQ(dynamic_cast<DecoderGroup*>(group.get()) != nullptr, generates);
    EXPECT_EQ(group->stream_limits().max_blocks > 0, generates);
    const auto stream = device_.make_stream(group->stream_limits()).value();
    const SystemClock clock;
    const auto executor = group->make_executor(*stream, clock, {}).value();
    EXPECT_EQ(executor->cache().num_blocks > 0, generates);
    EXPECT_EQ(executor->supports_every_planner().has_value(), !generates);
    EXPECT_TRUE(executor->set_planner("packed", device_.info(), nullptr));
    EXPECT_TRUE(executor->set_planner("naive", device_.info(), nullptr));
    EXPECT_EQ(executor->set_planner("turbo", device_.info(), nullptr).error().code,
              generates ? Code::kUnsupported : Code::kInvalidArgument);  // it has no tables
    EXPECT_EQ(group->make_executor(*stream, clock, {.scheduler = "none"}).error().code,
              Code::kInvalidArgument);
  }
}

TEST_F(GroupTest, DestructionFreesTenants) {
  ASSERT_TRUE(group_->admit(make("a", 1), nullptr));
  group_.reset();
  EXPECT_EQ(device_.state().live_buffers, 0u);
  EXPECT_EQ(device_.state().live_slots, 0u);
}

TEST_F(GroupTest, SmallerModelsFitAndKeepTheirOwnBounds) {
  model::BackboneSpec spec = testing::odd_spec();
  spec.vocab = 100;
  spec.max_positions = 17;
  const uint32_t slot = group_->admit(make("small", 1, spec), nullptr).value();
  EXPECT_EQ(group_->model(slot)->max_tokens, 17u);
  const auto stream = device_.make_stream(group_->stream_limits()).value();
  const auto answers = testing::run_batch(*group_, *stream,
                                          {{.slot = slot, .ids = {99}},
                                           {.slot = slot, .ids = {100}},
                                           {.slot = slot, .ids = std::vector<uint32_t>(18, 1)}});
  EXPECT_EQ(answers[0].status, wire::StatusCode::kOk);
  EXPECT_EQ(answers[1].status, wire::StatusCode::kMalformed);
  EXPECT_EQ(answers[2].status, wire::StatusCode::kTooLong);
}

// A change to a valid directory, and the expected refusal.
struct RefusedModel {
  std::string name;
  void (*spoil)(const TempDirectory&, const std::string& folder);
  Code code;
  std::vector<std::string> expected;
};

void edit_config(const TempDirectory& files, const std::string& folder, const char* key,
                 json value) {
  json config = json::parse(files.read(folder + "/config.json"));
  config[key] = std::move(value);
  files.write(folder + "/config.json", config.dump());
}

// Changes one tensor's entry of the safetensors header; the data keep their size.
void edit_tensor(const TempDirectory& files, const std::string& folder, const std::string& name,
                 const std::string& new_name, const json& shape) {
  const std::string bytes = files.read(folder + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  json header = json::parse(bytes.substr(8, length));
  json entry = header[name];
  header.erase(name);
  if (!shape.is_null()) entry["shape"] = shape;
  header[new_name] = entry;
  files.write(folder + "/model.safetensors",
              testing::safetensors(header.dump(), bytes.substr(8 + length)));
}

const RefusedModel kRefusals[] = {
    {"another size",
     [](const auto& f, const auto& d) { edit_config(f, d, "num_hidden_layers", 3); },
     Code::kInvalidArgument,
     {"config.json", "num_hidden_layers: group has 2, model has 3"}},
    {"more words",
     [](const auto& f, const auto& d) { edit_config(f, d, "vocab_size", 132); },
     Code::kInvalidArgument,
     {"vocab_size: group has room for 131, model has 132"}},
    {"another family",
     [](const auto& f, const auto& d) { edit_config(f, d, "model_type", "gpt2"); },
     Code::kUnsupported,
     {"config.json",
      "'model_type' must be one of albert, bert, distilbert, marian, roberta, vit, found "
      "\"gpt2\""}},
    {"another head",
     [](const auto& f, const auto& d) {
       edit_config(f, d, "architectures", json::array({"BertForMultipleChoice"}));
     },
     Code::kUnsupported,
     {"config.json", "BertForMultipleChoice"}},
    {"no config",
     [](const auto& f, const auto& d) { std::filesystem::remove(f.file(d + "/config.json")); },
     Code::kNotFound,
     {"config.json"}},
    {"config not JSON",
     [](const auto& f, const auto& d) { f.write(d + "/config.json", "{\"a\":"); },
     Code::kCorrupt,
     {"config.json", "not JSON"}},
    {"no weights",
     [](const auto& f, const auto& d) {
       std::filesystem::remove(f.file(d + "/model.safetensors"));
     },
     Code::kNotFound,
     {"model.safetensors"}},
    {"empty weights",
     [](const auto& f, const auto& d) { f.write(d + "/model.safetensors", ""); },
     Code::kCorrupt,
     {"model.safetensors", "truncated"}},
    {"cut weights",
     [](const auto& f, const auto& d) {
       const std::string file = f.file(d + "/model.safetensors");
       std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
     },
     Code::kCorrupt,
     {"model.safetensors", "truncated"}},
    {"missing tensor",
     [](const auto& f, const auto& d) {
       edit_tensor(f, d, "bert.encoder.layer.1.attention.self.key.weight", "other", nullptr);
     },
     Code::kInvalidArgument,
     {"model.safetensors", "\"bert.encoder.layer.1.attention.self.key.weight\"",
      "expected [21, 21], found none"}},
    {"misshapen tensor",
     [](const auto& f, const auto& d) {
       const char* name = "bert.encoder.layer.0.intermediate.dense.weight";
       edit_tensor(f, d, name, name, {21, 37});
     },
     Code::kInvalidArgument,
     {"\"bert.encoder.layer.0.intermediate.dense.weight\"", "expected [37, 21], found [21, 37]"}},
    {"missing head tensor",
     [](const auto& f, const auto& d) { edit_tensor(f, d, "classifier.bias", "other", nullptr); },
     Code::kInvalidArgument,
     {"\"classifier.bias\"", "expected [2], found none"}},
    {"more labels than the tensor has",
     [](const auto& f, const auto& d) {
       edit_config(f, d, "id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}});
     },
     Code::kInvalidArgument,
     {"\"classifier.weight\"", "expected [3, 21], found [2, 21]"}},
    {"damaged vocabulary",
     [](const auto& f, const auto& d) {
       std::filesystem::remove(f.file(d + "/vocab.txt"));
       f.write(d + "/tokenizer.json", "{");
     },
     Code::kCorrupt,
     {"tokenizer.json"}},
    {"larger vocabulary than embeddings",
     [](const auto& f, const auto& d) {
       f.write(d + "/vocab.txt", f.read(d + "/vocab.txt") + "one\n");
     },
     Code::kInvalidArgument,
     {"ids up to 131", "131 word embeddings"}},
};

TEST_F(GroupTest, AModelLargerThanFreeMemoryIsNotLoaded) {
  const uint32_t first = group_->admit(make("good", 1), nullptr).value();
  // The group has scratch for the other's head.
  const uint64_t bytes = group_->model(first)->weight_bytes -
                         HeadScratch::bytes_of(group_->model(first)->head.spec, group_->options());
  const size_t buffers = device_.state().live_buffers, slots = device_.state().live_slots;
  std::vector<std::string> stages;
  const auto progress = [&](const std::string& stage, double) { stages.push_back(stage); };
  device_.state().available_bytes = bytes - 1;
  const std::string other = make("other", 2);
  const auto refused = group_->admit(other, progress);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("are left"), std::string::npos) << refused.error().message;
  EXPECT_EQ(stages.front(), "reading " + other);
  EXPECT_TRUE(std::ranges::none_of(stages, [](const std::string& stage) {
    return stage.starts_with("packing") || stage.starts_with("loading");
  }));
  EXPECT_EQ(device_.state().live_buffers, buffers);
  EXPECT_EQ(device_.state().live_slots, slots);
  device_.state().available_bytes = bytes;
  EXPECT_TRUE(group_->admit(other, progress));
}

TEST_F(GroupTest, RefusedModelsLeaveTheGroupUnchanged) {
  ASSERT_EQ(group_->admit(make("good", 1), nullptr).value(), 0u);
  const auto before = logits(0);
  const size_t buffers = device_.state().live_buffers, slots = device_.state().live_slots;
  const uint64_t bytes = group_->weight_bytes();
  make("template", 2);
  for (const RefusedModel& row : kRefusals) {
    SCOPED_TRACE(row.name);
    std::filesystem::remove_all(files_.file("bad"));
    std::filesystem::copy(files_.file("template"), files_.file("bad"),
                          std::filesystem::copy_options::recursive);
    row.spoil(files_, "bad");
    const auto result = group_->admit(files_.file("bad"), nullptr);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, row.code) << result.error().message;
    EXPECT_NE(result.error().message.find(files_.file("bad")), std::string::npos)
        << result.error().message;
    for (const std::string& expected : row.expected)
      EXPECT_NE(result.error().message.find(expected), std::string::npos) << result.error().message;
    EXPECT_EQ(device_.state().live_buffers, buffers);
    EXPECT_EQ(device_.state().live_slots, slots);
    EXPECT_EQ(group_->weight_bytes(), bytes);
    EXPECT_EQ(group_->num_tenants(), 1u);
    EXPECT_EQ(group_->model(1), nullptr);
  }
  EXPECT_EQ(logits(0), before);
  EXPECT_EQ(group_->admit(files_.file("template"), nullptr).value(), 1u);
}

TEST_F(GroupTest, AFailedAllocationDuringAdmissionLeaksNothing) {
  ASSERT_TRUE(group_->admit(make("good", 1), nullptr));
  const auto before = logits(0);
  const std::string other = make("other", 2);
  const size_t buffers = device_.state().live_buffers, slots = device_.state().live_slots;
  int budget = 0;
  for (;; ++budget) {
    ASSERT_LT(budget, 100);
    device_.state().allocations_until_failure = budget;
    const auto result = group_->admit(other, nullptr);
    device_.state().allocations_until_failure = -1;
    if (result) break;
    EXPECT_EQ(result.error().code, Code::kResourceExhausted);
    EXPECT_EQ(device_.state().live_buffers, buffers);
    EXPECT_EQ(device_.state().live_slots, slots);
    EXPECT_EQ(group_->model(1), nullptr);
  }
  EXPECT_GT(budget, 10);  // tables, matrices, vectors, head and its scratch
  EXPECT_EQ(logits(0), before);
}

TEST_F(GroupTest, CreationFailsWithoutMemory) {
  for (int budget = 0; budget < 6; ++budget) {
    PlainDevice device;
    device.state().allocations_until_failure = budget;
    EXPECT_EQ(make_group(device, testing::odd_spec(), kOptions).error().code,
              Code::kResourceExhausted);
    EXPECT_EQ(device.state().live_buffers, 0u);
  }
}

// Control admits and releases one tenant while the executor serves another. With -Dsanitize or a
// thread sanitizer this also finds races.
TEST_F(GroupTest, ServingContinuesDuringAdmissionAndRelease) {
  ASSERT_EQ(group_->admit(make("steady", 1), nullptr).value(), 0u);
  const std::string guest = make("guest", 2);
  const auto before = logits(0);
  std::atomic<bool> stop = false;
  std::atomic<int> batches = 0, wrong = 0;
  std::thread executor([&] {
    const auto stream = device_.make_stream(group_->stream_limits()).value();
    while (!stop) {
      const auto answer = testing::run_batch(
          *group_, *stream, {{.slot = 0, .ids = {1, 5, 9}, .kind = wire::ResultKind::kLogits}})[0];
      if (!answer.ok() || answer.floats() != before) ++wrong;
      ++batches;
    }
  });
  for (int round = 0; round < 20 || batches < 20; ++round) {
    const auto slot = group_->admit(guest, nullptr);
    ASSERT_EQ(slot.value(), 1u);
    group_->release(*slot);
  }
  stop = true;
  executor.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace itif::runtime
