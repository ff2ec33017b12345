// The tenant service asks for a check of each model before it parses it.
#include <atomic>
#include <filesystem>
#include <fstream>

#include "serving/model_checker.h"
#include "serving/model_contents.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

namespace fs = std::filesystem;

class ModelCheck : public TenantServiceTest {
 protected:
  void SetUp() override {
    TenantServiceTest::SetUp();
    std::string pattern = (fs::temp_directory_path() / "itif-model-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    fs::copy(ITIF_GOLDENS_DIR "/plain-f32", directory_, fs::copy_options::recursive);
  }
  void TearDown() override {
    fs::remove_all(directory_);
    TenantServiceTest::TearDown();
  }
  tenant::Record copied(uint32_t id) const {
    tenant::Record record = settings(id);
    record.model_dir = directory_;
    return record;
  }

  std::string directory_;
};

TEST_F(ModelCheck, RefusesWhatTheCheckRefuses) {
  std::vector<std::string> checked;
  service->check_models_with([&](const model::ModelFiles& files, const auto&) -> Status {
    checked.push_back(files.directory + "+" + files.base);
    return fail(Code::kCorrupt, "crashed");
  });
  const Status refused = admit(copied(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_EQ(refused.error().message, "crashed");
  EXPECT_EQ(checked, std::vector<std::string>{directory_ + "+"});
  EXPECT_FALSE(service->tenant(1u)) << "a new tenant is not listed";
  EXPECT_TRUE(groups.empty()) << "nothing was made for it";
}

TEST_F(ModelCheck, LoadsWhatTheCheckAccepts) {
  int checks = 0;
  service->check_models_with([&](const auto&, const auto& gives_up) -> Status {
    ++checks;
    EXPECT_FALSE(gives_up());
    return {};
  });
  const Status admitted = admit(copied(1));
  ASSERT_TRUE(admitted) << admitted.error().message;
  EXPECT_TRUE(install(1));
  EXPECT_EQ(checks, 2) << "each version";
}

// Files that are replaced after the check were not checked.
TEST_F(ModelCheck, RefusesFilesThatChangeDuringTheLoad) {
  service->check_models_with([&](const auto&, const auto&) -> Status {
    std::ofstream(directory_ + "/config.json", std::ios::app) << " ";
    return {};
  });
  const Status refused = admit(copied(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("changed while"), std::string::npos)
      << refused.error().message;
  service->check_models_with([](const auto&, const auto&) -> Status { return {}; });
  EXPECT_TRUE(admit(copied(1)));
}

TEST_F(ModelCheck, AStopEndsTheCheck) {
  service->check_models_with([&](const auto&, const auto& gives_up) -> Status {
    service->cancel();
    EXPECT_TRUE(gives_up());
    return fail(Code::kUnavailable, "the check of the model was given up");
  });
  const Status stopped = admit(copied(1));
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("itifd is stopping"), std::string::npos)
      << stopped.error().message;
}

TEST_F(ModelCheck, FileStatesShowEveryChange) {
  const auto before = file_states({directory_});
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(file_states({directory_}), before);
  fs::create_directory(directory_ + "/1_Pooling");
  EXPECT_EQ(file_states({directory_}), before) << "an empty directory is no change";
  std::ofstream(directory_ + "/1_Pooling/config.json") << "{}";
  const auto with_module = file_states({directory_});
  EXPECT_EQ(with_module.size(), before.size() + 1);
  fs::copy_file(directory_ + "/config.json", directory_ + "/config.new");
  fs::rename(directory_ + "/config.new", directory_ + "/config.json");
  EXPECT_NE(file_states({directory_}), with_module) << "the same text in another file";
  EXPECT_TRUE(file_states({directory_ + "/absent"}).empty());
}

}  // namespace
}  // namespace itif::serving::test
