// LoRA adapters as tenants: which directories are refused, and what memory they take.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "adapters_fixture.h"

namespace itif::runtime {
namespace {

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
