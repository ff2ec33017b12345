// Versions whose files have changed: a number always means the same contents.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "serving/model_contents.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

namespace fs = std::filesystem;

// Times of files are those of the kernel's last tick: changes within one look the same.
constexpr std::chrono::milliseconds kClockTick{20};

class TenantServiceContents : public TenantServiceTest {
 protected:
  void SetUp() override {
    TenantServiceTest::SetUp();
    std::string pattern = (fs::temp_directory_path() / "itif-model-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    fs::copy(ITIF_GOLDENS_DIR "/plain-f32", directory_ + "/v1", fs::copy_options::recursive);
    fs::copy(ITIF_GOLDENS_DIR "/plain-f32", directory_ + "/v2", fs::copy_options::recursive);
    table.add_fallback(
        []() -> Result<std::unique_ptr<device::Device>> { return std::make_unique<FakeDevice>(); });
  }
  void TearDown() override {
    fs::remove_all(directory_);
    TenantServiceTest::TearDown();
  }
  std::string dir(const std::string& name) const { return directory_ + "/" + name; }
  tenant::Record in(uint32_t id, const std::string& name) const {
    tenant::Record record = settings(id);
    record.model_dir = dir(name);
    return record;
  }
  // Other contents with the same sizes and times. `bits`: to flip in the last byte of the weights.
  void replace(const std::string& name, int bits = 1) const {
    std::this_thread::sleep_for(kClockTick);
    const std::string file = dir(name) + "/model.safetensors";
    const auto time = fs::last_write_time(file);
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-1, std::ios::end);
    const char last = static_cast<char>(bytes.get() ^ bits);
    bytes.seekp(-1, std::ios::end);
    bytes.put(last);
    bytes.close();
    fs::last_write_time(file, time);
  }
  void touch(const std::string& name) const {
    fs::last_write_time(dir(name) + "/config.json", fs::file_time_type::clock::now());
  }
  void spoil_samples(const std::string& name) const {
    std::ofstream(dir(name) + "/itif-samples.jsonl") << "{\n";
  }
  // As a restart does with what the registry has kept.
  Status restart(const tenant::Record& record) {
    pipeline->shared().tenants.go_idle(kReader);
    service.reset();
    pipeline.reset();
    TenantServiceTest::SetUp();
    service->expect({record}, "");
    Status admitted = fail(Code::kInternal, "not called");
    service->admit_listed({record},
                          [&](const tenant::Record&, const Status& status) { admitted = status; });
    return admitted;
  }
  // "2 active, 1 previous"
  std::string states(uint32_t id) const {
    std::string text;
    for (const tenant::Version& version : all_versions(record(id)))
      text += (text.empty() ? "" : ", ") + std::to_string(version.number) + " " +
              version_state_name(version.state);
    return text;
  }

  std::string directory_;
};

TEST_F(TenantServiceContents, ALoadNotesTheContents) {
  ASSERT_TRUE(admit(in(1, "v1")));
  const tenant::Contents contents = record(1).contents;
  EXPECT_EQ(contents.digest, *content_digest({dir("v1")}));
  EXPECT_EQ(contents.stamp, file_stamp({dir("v1")}));
  tenant::Record next = record(1);
  tenant::install_version(next, dir("v2"), 5);
  ASSERT_TRUE(change(next));
  EXPECT_EQ(record(1).contents.digest, contents.digest) << "equal files";
  EXPECT_NE(record(1).contents.stamp, contents.stamp);
  EXPECT_EQ(record(1).others[0].contents, contents);
}

TEST_F(TenantServiceContents, ARestartFillsInAnUnknownDigest) {
  ASSERT_TRUE(admit(in(1, "v1")));
  tenant::Record saved = record(1);
  const tenant::Contents contents = std::exchange(saved.contents, {});
  ASSERT_TRUE(restart(saved));
  EXPECT_EQ(record(1).contents, contents);
  EXPECT_EQ(states(1), "1 active");
}

TEST_F(TenantServiceContents, TouchedFilesAreTheSameVersion) {
  ASSERT_TRUE(admit(in(1, "v1")));
  const tenant::Record saved = record(1);
  touch("v1");
  ASSERT_TRUE(restart(saved));
  EXPECT_EQ(states(1), "1 active");
  EXPECT_EQ(record(1).contents.digest, saved.contents.digest);
  EXPECT_EQ(record(1).contents.stamp, file_stamp({dir("v1")})) << "not read again next time";
}

TEST_F(TenantServiceContents, ReplacedFilesAreANewVersionAfterARestart) {
  ASSERT_TRUE(admit(in(1, "v1")));
  const tenant::Record saved = record(1);
  replace("v1");
  ASSERT_TRUE(restart(saved));
  ASSERT_EQ(states(1), "2 active, 1 previous");
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_NE(record(1).contents.digest, saved.contents.digest);
  EXPECT_EQ(record(1).others[0].contents, saved.contents);
  EXPECT_EQ(record(1).placement.group, saved.placement.group);
  ASSERT_TRUE(restart(record(1)));
  EXPECT_EQ(states(1), "2 active, 1 previous") << "no further number";
}

TEST_F(TenantServiceContents, ReplacedFilesThatFailTheirSamplesFailTheTenant) {
  ASSERT_TRUE(admit(in(1, "v1")));
  const tenant::Record saved = record(1);
  spoil_samples("v1");
  ASSERT_TRUE(restart(saved)) << "the samples of files that were checked do not matter";
  replace("v1");
  const Status refused = restart(saved);
  ASSERT_FALSE(refused);
  for (const char* part : {"v1 has other contents", "version 1", "itif-samples.jsonl:1"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_EQ(states(1), "1 active");
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kFailed);
  EXPECT_TRUE(service->groups().empty()) << "its slot is free";
  replace("v1");  // back
  ASSERT_TRUE(service->admit(saved, {}));
  EXPECT_EQ(states(1), "1 active");
}

TEST_F(TenantServiceContents, AReplacedCanaryIsANewCanary) {
  replace("v2", 2);  // not the active version's contents, even when both have changed
  ASSERT_TRUE(admit(in(1, "v1")));
  tenant::Record next = record(1);
  tenant::install_canary(next, dir("v2"), 30, 5);
  ASSERT_TRUE(change(next));
  const tenant::Record saved = record(1);
  replace("v2");
  ASSERT_TRUE(restart(saved));
  EXPECT_EQ(states(1), "3 canary, 2 rolled_back, 1 active");
  ASSERT_TRUE(snapshot().find(1)->canary);
  EXPECT_EQ(snapshot().find(1)->canary->version, 3u);
  EXPECT_EQ(snapshot().find(1)->canary_percent, 30u);
  // Both at the same time get numbers of their own.
  replace("v1");
  replace("v2");
  ASSERT_TRUE(restart(record(1)));
  EXPECT_EQ(states(1), "5 canary, 4 active, 3 rolled_back, 2 rolled_back, 1 previous");
  spoil_samples("v2");
  replace("v2");
  ASSERT_TRUE(restart(record(1)));
  EXPECT_EQ(states(1), "5 canary, 4 active, 3 rolled_back, 2 rolled_back, 1 previous");
  EXPECT_FALSE(snapshot().find(1)->canary);
}

TEST_F(TenantServiceContents, APromotionRefusesAReplacedCanaryThatIsNotLoaded) {
  ASSERT_TRUE(admit(in(1, "v1")));
  tenant::Record next = record(1);
  tenant::install_canary(next, dir("v2"), 30, 5);
  ASSERT_TRUE(change(next));
  const tenant::Record saved = record(1);
  const std::string config = dir("v2") + "/config.json";
  fs::rename(config, config + ".away");
  ASSERT_TRUE(restart(saved));
  fs::rename(config + ".away", config);
  replace("v2");
  next = record(1);
  ASSERT_TRUE(promote_canary(next));
  const Status refused = change(next);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("version 2"), std::string::npos);
  EXPECT_EQ(states(1), "2 canary, 1 active");
  EXPECT_EQ(snapshot().find(1)->version, 1u);
}

TEST_F(TenantServiceContents, AResumeGivesReplacedFilesANewNumber) {
  ASSERT_TRUE(admit(in(1, "v1")));
  const tenant::Record saved = record(1);
  const std::string config = dir("v1") + "/config.json";
  fs::rename(config, config + ".away");
  ASSERT_FALSE(restart(saved));
  fs::rename(config + ".away", config);
  replace("v1");
  ASSERT_TRUE(admit(saved));
  EXPECT_EQ(states(1), "2 active, 1 previous");
  EXPECT_EQ(snapshot().find(1)->version, 2u);
}

TEST_F(TenantServiceContents, ARollbackRefusesReplacedFiles) {
  ASSERT_TRUE(admit(in(1, "v1")));
  tenant::Record next = record(1);
  tenant::install_version(next, dir("v2"), 5);
  ASSERT_TRUE(change(next));
  const tenant::Record saved = record(1);
  replace("v1");
  tenant::Record back = saved;
  ASSERT_TRUE(roll_back(back));
  ASSERT_TRUE(change(back)) << "it is still in memory";
  ASSERT_TRUE(restart(saved));
  const size_t loaded = groups.back()->num_tenants();
  const Status refused = change(back);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  for (const std::string& part :
       {dir("v1"), std::string("version 1"), "itifctl tenant update t1 --model " + dir("v1")})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_EQ(states(1), "2 active, 1 previous");
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_EQ(groups.back()->num_tenants(), loaded);
  replace("v1");  // back
  ASSERT_TRUE(change(back));
  EXPECT_EQ(states(1), "2 rolled_back, 1 active");
  EXPECT_EQ(snapshot().find(1)->version, 1u);
}

// The active version is not loaded, and the previous one's files have changed.
TEST_F(TenantServiceContents, ARollbackOfAFailedTenantRefusesReplacedFiles) {
  ASSERT_TRUE(admit(in(1, "v1")));
  tenant::Record next = record(1);
  tenant::install_version(next, dir("v2"), 5);
  ASSERT_TRUE(change(next));
  const tenant::Record saved = record(1);
  replace("v1");
  fs::remove(dir("v2") + "/config.json");
  ASSERT_FALSE(restart(saved));
  tenant::Record back = saved;
  ASSERT_TRUE(roll_back(back));
  const Status refused = service->admit(back, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("version 1"), std::string::npos);
  EXPECT_EQ(states(1), "2 active, 1 previous");
}

TEST_F(TenantServiceContents, AMoveGivesReplacedFilesANewNumber) {
  ASSERT_TRUE(admit(in(1, "v1")));
  ASSERT_TRUE(admit(in(2, "v2")));
  tenant::Record next = record(1);
  tenant::install_canary(next, dir("v2"), 30, 5);
  ASSERT_TRUE(change(next));
  replace("v1");
  const Status reset = service->reset_device({});
  ASSERT_TRUE(reset) << reset.error().message;
  ASSERT_EQ(states(1), "3 active, 2 canary, 1 previous");
  EXPECT_EQ(snapshot().find(1)->version, 3u);
  EXPECT_EQ(snapshot().find(1)->canary->version, 2u);
  EXPECT_EQ(states(2), "1 active");
  EXPECT_EQ(service->list()[0].condition, tenant::Condition::kLoaded);
  spoil_samples("v2");
  replace("v2");
  EXPECT_FALSE(service->reset_device({}));
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kLoaded);
  EXPECT_EQ(service->tenant(2u)->condition, tenant::Condition::kFailed);
  EXPECT_EQ(states(2), "1 active");
}

TEST_F(TenantServiceContents, FilesThatChangeDuringALoadAreRefused) {
  on_admit = [this](const model::Progress&) { replace("v1"); };
  const Status refused = admit(in(1, "v1"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("changed while"), std::string::npos);
  EXPECT_TRUE(service->groups().empty()) << "its slot is free";
}

}  // namespace
}  // namespace itif::serving::test
