// LoRA adapters as tenants: their results are those of merged weights, and their rows run in the
// base's GEMMs, beside full models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/random.h"
#include "make_adapter.h"
#include "runtime/batch/executor.h"
#include "support/image_requests.h"
#include "support/merged_model.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::TestRequest;

// Family and device.
using Param = std::tuple<std::string, std::string>;

class Adapters : public ::testing::TestWithParam<Param> {
 protected:
  static constexpr GroupOptions kOptions{.max_tokens = 300, .max_requests = 24, .max_tenants = 8};

  void SetUp() override {
    device_ = testing::make_device(std::get<1>(GetParam()));
    if (!device_) GTEST_SKIP() << "this machine has no " << std::get<1>(GetParam());
    spec_ = spec_of(std::get<0>(GetParam()));
    base_ = make("base", 1);
    group_ = make_group(*device_);
  }
  static model::BackboneSpec spec_of(const std::string& family) {
    model::BackboneSpec spec = backbone::find_preset(family + "-tiny").value()->spec;
    spec.layers = 2;
    spec.hidden = 24;
    spec.heads = 3;
    spec.intermediate = 37;
    spec.vocab = 131;
    spec.max_positions = 48;
    if (family == "albert")
      spec.own = {{"embedding_size", uint64_t{10}},
                  {"num_hidden_groups", uint64_t{1}},
                  {"inner_group_num", uint64_t{1}}};
    return spec;
  }
  std::unique_ptr<EncoderGroup> make_group(
      device::Device& device,
      backbone::FusionMode fusion_mode = backbone::FusionMode::kFused) const {
    auto group = make_encoder_group(device, spec_, kOptions, {.fusion_mode = fusion_mode});
    EXPECT_TRUE(group) << group.error().message;
    return std::move(*group);
  }
  std::string make(const std::string& name, uint64_t seed,
                   mkmodel::HeadChoice head = mkmodel::HeadChoice::kClassification) {
    const std::string directory = files_.file(name);
    const Status made = mkmodel::make_model(testing::loud_model(spec_, head, seed), directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  std::string make_adapter(const std::string& name, mkmodel::AdapterOptions options) {
    options.spec = spec_;
    options.range = 0.3f;
    const std::string directory = files_.file(name);
    const Status made = mkmodel::make_adapter(options, directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  // The names of all of the family's modules that can be changed.
  std::vector<std::string> all_modules() const {
    std::set<std::string> names;
    const auto* family = backbone::find_family(spec_.family).value();
    for (const model::WeightKind& kind : family->weight_kinds(spec_))
      if (kind.storage == model::Storage::kMatrix)
        for (const model::Source& source : kind.sources) {
          std::string module = source.names.back().substr(0, source.names.back().size() - 7);
          names.insert(module);
        }
    return {names.begin(), names.end()};
  }
  uint32_t admit(const model::ModelFiles& files) {
    const auto slot = group_->admit(files, nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot ? *slot : UINT32_MAX;
  }
  // Requests of the slots, in this order, each of its own length.
  static std::vector<TestRequest> requests_of(const std::vector<uint32_t>& slots) {
    std::vector<TestRequest> requests;
    uint32_t next = 7;
    for (size_t i = 0; i < slots.size(); ++i) {
      TestRequest& request = requests.emplace_back(TestRequest{.slot = slots[i]});
      for (size_t t = 0; t < 3 + 5 * i % 16; ++t) request.ids.push_back(5 + next++ * 37 % 120);
    }
    return requests;
  }
  static std::vector<Answer> run(EncoderGroup& group, device::Device& device,
                                 const std::vector<TestRequest>& requests) {
    const auto stream = device.make_stream(group.stream_limits()).value();
    stream->attach_thread();
    return testing::run_batch(group, *stream, requests);
  }
  // Expects the answers of `requests`, of which those of a slot equal those of a whole model.
  void expect_answers(EncoderGroup& group, const std::vector<TestRequest>& requests,
                      const std::map<uint32_t, std::string>& models) {
    const std::vector<Answer> answers = run(group, *device_, requests);
    for (const auto& [slot, directory] : models) {
      const auto alone = make_group(*device_);
      const auto own = alone->admit(directory, nullptr);
      ASSERT_TRUE(own) << own.error().message;
      for (size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].slot != slot) continue;
        TestRequest single = requests[i];
        single.slot = *own;
        const Answer expected = run(*alone, *device_, {single})[0];
        ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
        ASSERT_TRUE(expected.ok()) << expected.detail;
        ASSERT_EQ(answers[i].floats().size(), expected.floats().size());
        EXPECT_LE(testing::max_difference(answers[i].floats(), expected.floats()), tolerance())
            << "slot " << slot << ", request " << i;
      }
    }
  }
  double tolerance() const { return std::get<1>(GetParam()) == "bf16" ? 0.15 : 2e-4; }
  std::string merged(const std::string& adapter, const std::string& base) {
    const std::string out = files_.file("merged" + std::to_string(num_merged_++));
    testing::merge_model(base, adapter, out);
    return out;
  }
  std::string merged(const std::string& adapter) { return merged(adapter, base_); }

  testing::TempDirectory files_;
  std::unique_ptr<device::Device> device_;
  model::BackboneSpec spec_;
  std::string base_;
  std::unique_ptr<EncoderGroup> group_;
  int num_merged_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Families, Adapters,
    ::testing::Combine(::testing::Values("bert", "roberta", "distilbert", "albert"),
                       ::testing::Values("plain", "f32", "bf16")),
    [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

wire::ResultKind logits() {
  return wire::ResultKind::kLogits;
}

TEST_P(Adapters, AnswerAsMergedWeightsInOneBatchWithFullModels) {
  const std::string usual = make_adapter("usual", {.rank = 8, .seed = 3});
  const std::string all =
      make_adapter("all", {.targets = all_modules(), .rank = 3, .alpha = 4, .seed = 4});
  const std::string stable = make_adapter(
      "stable", {.rank = 12, .alpha = 5, .is_rank_stabilized = true, .dtype = DType::kF32});
  const std::string headed = make_adapter("headed", {.rank = 4, .num_labels = 5, .seed = 6});
  const std::string tuned = make("tuned", 2);
  std::map<uint32_t, std::string> models;
  models[admit(base_)] = base_;
  models[admit({usual, base_})] = merged(usual);
  models[admit(tuned)] = tuned;
  models[admit({all, base_})] = merged(all);
  models[admit({stable, base_})] = merged(stable);
  models[admit({headed, base_})] = merged(headed);
  std::vector<TestRequest> requests = requests_of({0, 1, 1, 3, 2, 5, 4, 0, 3, 2, 1, 5});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, models);
  for (uint32_t slot = 0; slot < 6; ++slot) expect_answers(*group_, requests_of({slot, slot}), {});
}

TEST_P(Adapters, AnswerWithoutTheirBaseAsTenant) {
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  const uint32_t slot = admit({adapter, base_});
  auto requests = requests_of({slot, slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{slot, merged(adapter)}});
}

TEST_P(Adapters, RunInTheGemmsOfTheirBase) {
  if (std::get<1>(GetParam()) != "plain") GTEST_SKIP() << "only the plain device tells its GEMMs";
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  const std::string other = make_adapter("b", {.targets = all_modules(), .rank = 3, .seed = 4});
  admit(base_);
  admit({adapter, base_});
  admit({other, base_});
  admit(make("tuned", 2));
  auto& state = static_cast<testing::PlainDevice&>(*device_).state();
  std::set<size_t> num_ranges;
  size_t num_updates = 0;
  state.on_gemm = [&](const kernels::GroupedGemm& gemm) { num_ranges.insert(gemm.ranges.size()); };
  state.on_operator = [&](const kernels::Operator& op) {
    num_updates += std::holds_alternative<const kernels::AddLowRank*>(op);
  };
  run(*group_, *device_, requests_of({0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(num_ranges, (std::set<size_t>{1}));
  EXPECT_GT(num_updates, 0u);
  num_ranges.clear();
  run(*group_, *device_, requests_of({0, 1, 2, 3}));
  EXPECT_EQ(num_ranges, (std::set<size_t>{2}));
  num_updates = 0;
  run(*group_, *device_, requests_of({0, 3}));
  EXPECT_EQ(num_updates, 0u);
}

TEST_P(Adapters, HavePartsOfTheirGemmsProducts) {
  admit(base_);
  admit({make_adapter("a", {.rank = 5, .seed = 3}), base_});
  const auto weights = group_->pass_weights();
  EXPECT_TRUE(weights->update_shares(0).empty());
  ASSERT_EQ(weights->update_shares(1).size(), weights->kinds.size());
  size_t num_changed = 0;
  for (const float share : weights->update_shares(1)) {
    if (share == 0) continue;
    ++num_changed;
    // Query and value of three modules, at rank 8: that of 5 is padded.
    EXPECT_FLOAT_EQ(share, 2 * 8 * (24 + 24) / (3 * 24 * 24.0f));
  }
  EXPECT_GT(num_changed, 0u);
}

// Counts the adapters' ranges of rows in the updates of batches that an executor makes.
class AdapterRanges final : public CompletionSink {
 public:
  AdapterRanges(testing::PlainDevice& device, EncoderGroup& group)
      : stream_(device.make_stream(group.stream_limits()).value()),
        executor_(GroupExecutor::create(group, *stream_, clock_,
                                        {.limits = {.max_tokens = 300, .max_requests = 24}})
                      .value()) {
    device.state().on_operator = [this](const kernels::Operator& op) {
      if (const auto* update = std::get_if<const kernels::AddLowRank*>(&op))
        ranges_.insert((*update)->adapters.size());
    };
  }
  std::set<size_t> of(const std::vector<TestRequest>& requests) {
    ranges_.clear();
    testing::TestBatch batch(requests);
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() + executor_->num_executing() > 0)
      executor_->step(*this, figures);
    for (const Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
    return ranges_;
  }
  void complete(std::span<request::Request* const>) noexcept override {}

 private:
  VirtualClock clock_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<GroupExecutor> executor_;
  std::set<size_t> ranges_;
};

TEST_P(Adapters, RequestsOfAnAdapterTakeOneUpdate) {
  if (std::get<1>(GetParam()) != "plain") GTEST_SKIP() << "only the plain device tells its updates";
  admit(base_);
  admit({make_adapter("a", {.rank = 8, .seed = 3}), base_});
  admit({make_adapter("b", {.rank = 4, .seed = 4}), base_});
  AdapterRanges ranges(static_cast<testing::PlainDevice&>(*device_), *group_);
  EXPECT_EQ(ranges.of(requests_of({1, 2, 0, 1, 2, 0, 1, 2})), (std::set<size_t>{2}));
  EXPECT_EQ(ranges.of(requests_of({1, 0, 1})), (std::set<size_t>{1}));
}

// A base without head, whose tensors have no prefix, and a head of the adapter.
TEST_P(Adapters, BringTheirOwnHead) {
  const std::string bare = make("bare", 9, mkmodel::HeadChoice::kNone);
  mkmodel::AdapterOptions options{.rank = 8, .num_labels = 3, .seed = 3};
  const std::string adapter = make_adapter("a", options);
  if (spec_.family != "roberta") {  // the others' heads have a layer that the base lacks
    const auto refused = group_->admit({adapter, bare}, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("expected"), std::string::npos);
    return;
  }
  const uint32_t slot = admit({adapter, bare});
  EXPECT_EQ(group_->model(slot)->head.spec.labels.size(), 3u);
  auto requests = requests_of({slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{slot, merged(adapter, bare)}});
}

TEST_P(Adapters, AreRefusedWithoutAFittingBase) {
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  const auto refusal = [&](const model::ModelFiles& files) {
    const auto slot = group_->admit(files, nullptr);
    EXPECT_FALSE(slot);
    return slot ? std::string() : slot.error().message;
  };
  const auto expect_in = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_in(refusal(adapter), "name its base");
  expect_in(refusal({base_, base_}), "expected an adapter");
  expect_in(refusal({adapter, adapter}), "must be a whole model");
  expect_in(refusal({adapter, files_.file("none")}), "none/config.json");
  spec_.hidden = 48;
  const std::string wide = make("wide", 5), wide_adapter = make_adapter("b", {.rank = 4});
  expect_in(refusal({wide_adapter, wide}), "does not fit the group");
  expect_in(refusal({wide_adapter, base_}), "expected [");
  EXPECT_EQ(group_->num_tenants(), 0u);
  EXPECT_EQ(group_->weight_bytes(), 0u);
}

// A trained tensor that the file lacks would silently be the base's.
TEST_P(Adapters, AreRefusedWithoutATensorThatTheyHaveTrained) {
  const auto refusal = [&](const char* setting, const nlohmann::json& value) {
    const std::string directory =
        make_adapter(fmt::format("{}-{}", setting, value.dump().size()), {.rank = 4, .seed = 3});
    const std::string path = directory + "/adapter_config.json";
    nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
    config[setting] = value;
    std::ofstream(path) << config;
    const auto slot = group_->admit({directory, base_}, nullptr);
    return slot ? std::string("accepted") : slot.error().message;
  };
  const auto expect_in = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_in(refusal("modules_to_save", {"classifier"}), "expected a tensor \"classifier.");
  expect_in(refusal("task_type", "SEQ_CLS"), "expected a tensor \"classifier.");
  expect_in(refusal("modules_to_save", {"LayerNorm", "layer_norm"}), "orm.weight\"");
  expect_in(refusal("bias", "all"), ".bias\"");
  // PEFT names heads of all architectures, and saves no biases of wrapped modules.
  EXPECT_EQ(refusal("modules_to_save", {"score"}), "accepted");
  EXPECT_EQ(refusal("bias", "lora_only"), "accepted");
}

// A name may lack the family's prefix, so two names can be one of the base's.
TEST_P(Adapters, AreRefusedWithAModuleOrTensorThatIsThereTwice) {
  const std::string family_prefix =
      std::string(backbone::find_family(spec_.family).value()->heads.prefix) + ".";
  const auto refusal_with_copy_of = [&](const std::string& part) {
    const std::string directory = make_adapter(part, {.rank = 4, .num_labels = 5, .seed = 3});
    auto tensors = testing::read_tensors(directory, model::Adapter::kWeightsFile);
    const std::string peft_prefix = "base_model.model.";
    for (const auto& [tensor, values] : testing::Tensors(tensors)) {
      if (tensor.find(part) == std::string::npos) continue;
      std::string name = tensor.substr(peft_prefix.size());
      name = name.starts_with(family_prefix) ? name.substr(family_prefix.size())
                                             : family_prefix + name;
      tensors[peft_prefix + name] = values;
    }
    testing::write_tensors(directory + "/" + model::Adapter::kWeightsFile, tensors);
    const auto slot = group_->admit({directory, base_}, nullptr);
    return slot ? std::string("accepted") : slot.error().message;
  };
  for (const char* part : {"lora_", "classifier"}) {
    const std::string refusal = refusal_with_copy_of(part);
    EXPECT_NE(refusal.find(" is there twice, as \""), std::string::npos) << refusal;
    EXPECT_NE(refusal.find('"' + family_prefix), std::string::npos) << refusal;
  }
  EXPECT_EQ(refusal_with_copy_of("no such tensor"), "accepted");
}

// The thesis fusion mode has no operator for updates: it merges them.
TEST_P(Adapters, AreMergedInTheThesisFusionMode) {
  const std::string adapter = make_adapter("a", {.targets = all_modules(), .rank = 8, .seed = 3});
  group_ = make_group(*device_, backbone::FusionMode::kThesis);
  admit(base_);
  const uint32_t slot = admit({adapter, base_});
  EXPECT_NE(group_->model(0)->weight_slot, group_->model(slot)->weight_slot);
  EXPECT_EQ(group_->model(slot)->adapter_bytes, 0u);
  auto requests = requests_of({0, slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{0, base_}, {slot, merged(adapter)}});
}

// Adapters with the same values and scale have one memory, whatever their directories.
TEST_P(Adapters, EqualOnesAreStoredOnce) {
  const auto taken = [&] { return group_->weight_bytes(); };
  const std::string a = make_adapter("a", {.rank = 8, .seed = 3}), copy = files_.file("copy");
  std::filesystem::copy(a, copy, std::filesystem::copy_options::recursive);
  const std::string scaled = make_adapter("scaled", {.rank = 8, .alpha = 40, .seed = 3});
  admit(base_);
  const uint64_t none = taken();
  const uint32_t first = admit({a, base_});
  const uint64_t bytes = group_->model(first)->adapter_bytes;
  ASSERT_GT(bytes, 0u);
  EXPECT_EQ(taken(), none + bytes);
  const uint32_t second = admit({copy, base_}), third = admit({a, base_});
  EXPECT_EQ(taken(), none + bytes);
  EXPECT_EQ(group_->model(second)->adapter_bytes, bytes);
  const uint32_t other = admit({scaled, base_});
  EXPECT_EQ(taken(), none + 2 * bytes) << "another scale";
  group_->release(first);
  group_->release(third);
  EXPECT_EQ(taken(), none + 2 * bytes);
  std::vector<TestRequest> requests = requests_of({second, 0, other, second});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{0, base_}, {second, merged(copy)}, {other, merged(scaled)}});
  group_->release(second);
  EXPECT_EQ(taken(), none + bytes);
  group_->release(other);
  EXPECT_EQ(taken(), none);
}

TEST_P(Adapters, AnEqualOneNeedsNoRoom) {
  auto* plain = dynamic_cast<testing::PlainDevice*>(device_.get());
  if (plain == nullptr) GTEST_SKIP() << "only the plain device has no room on request";
  const std::string a = make_adapter("a", {.rank = 8, .seed = 3});
  admit({a, base_});
  plain->state().available_bytes = 0;
  admit({a, base_});
  EXPECT_FALSE(group_->admit({make_adapter("b", {.rank = 8, .seed = 4}), base_}, nullptr));
}

TEST_P(Adapters, ThreadsAdmitAndReleaseEqualOnes) {
  const std::string a = make_adapter("a", {.rank = 8, .seed = 3});
  admit(base_);
  const uint64_t none = group_->weight_bytes();
  group_->release(admit({a, base_}));
  for (int round = 0; round < 10; ++round) {
    std::array<uint32_t, 4> slots{};
    std::vector<std::thread> threads;
    for (uint32_t& slot : slots)
      threads.emplace_back([&] {
        group_->release(group_->admit({a, base_}, nullptr).value());
        slot = group_->admit({a, base_}, nullptr).value();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(group_->weight_bytes(), none + group_->model(slots[0])->adapter_bytes);
    for (const uint32_t slot : slots) group_->release(slot);
    EXPECT_EQ(group_->weight_bytes(), none);
  }
}

TEST_P(Adapters, LeaveNoMemoryBehind) {
  const uint32_t base = admit(base_);
  const uint64_t before = group_->weight_bytes();
  auto* plain = dynamic_cast<testing::PlainDevice*>(device_.get());
  const auto live_buffers = [&] { return plain == nullptr ? 0 : plain->state().live_buffers; };
  const size_t buffers = live_buffers();
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  for (int i = 0; i < 3; ++i) {
    const uint32_t first = admit({adapter, base_}), second = admit({adapter, base_});
    EXPECT_EQ(group_->model(first)->weight_slot, group_->model(base)->weight_slot);
    EXPECT_GT(group_->model(first)->adapter_bytes, 0u);
    EXPECT_GT(group_->weight_bytes(), before);
    group_->release(second);
    group_->release(first);
    EXPECT_EQ(group_->weight_bytes(), before);
    EXPECT_EQ(live_buffers(), buffers);
  }
}

}  // namespace
}  // namespace itif::runtime
