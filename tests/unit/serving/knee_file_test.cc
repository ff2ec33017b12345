// The file of a group's throughput by share: written and read back, and damaged in many ways.
#include "serving/knee_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace itif::serving {
namespace {

class KneeFileTest : public ::testing::Test {
 protected:
  KneeFileTest() {
    std::string name = ::testing::TempDir() + "itif-knee-XXXXXX";
    directory_ = mkdtemp(name.data());
    path_ = directory_ + "/knee.json";
  }
  ~KneeFileTest() override { std::filesystem::remove_all(directory_); }

  Error error_of(const std::string& text) {
    std::ofstream(path_) << text;
    const auto read = read_knee_profile(path_);
    EXPECT_FALSE(read) << text;
    return read ? Error{} : read.error();
  }

  const slice::KneeProfile profile_{
      .device = "host bf16: a CPU",
      .backbone = "bert, bf16",
      .curves = {{.requests = 1,
                  .tokens = 64,
                  .points = {{.percent = 20, .throughput = 10.5},
                             {.percent = 100, .throughput = 1e9 / 3}}},
                 {.requests = 8, .tokens = 64, .points = {{.percent = 100, .throughput = 1}}}}};
  std::string directory_, path_;
};

TEST_F(KneeFileTest, ReadsBackWhatItWrites) {
  ASSERT_TRUE(write_knee_profile(profile_, path_));
  ASSERT_TRUE(write_knee_profile(profile_, path_));  // over an old file
  const auto read = read_knee_profile(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->device, profile_.device);
  EXPECT_EQ(read->backbone, profile_.backbone);
  ASSERT_EQ(read->curves.size(), 2u);
  EXPECT_EQ(read->curves[0].requests, 1u);
  EXPECT_EQ(read->curves[1].tokens, 64u);
  EXPECT_EQ(read->curves[0].points[1].percent, 100);
  EXPECT_EQ(read->curves[0].points[1].throughput, 1e9 / 3);
}

TEST_F(KneeFileTest, NamesWhatIsWrong) {
  EXPECT_EQ(read_knee_profile(path_).error().code, Code::kNotFound);
  EXPECT_EQ(write_knee_profile(profile_, directory_ + "/none/knee.json").error().code,
            Code::kNotFound);
  const auto text = [](const char* version, const char* curves) {
    return std::string("{\"version\": ") + version +
           ", \"device\": \"d\", \"backbone\": \"b\", \"curves\": " + curves + "}";
  };
  EXPECT_EQ(error_of(text("2", "[]")).code, Code::kUnsupported);
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "curves"},
      {"{}", "curves"},
      {"[1]", "points"},
      {R"([{"requests": 1, "tokens": 1, "points": []}])", "points"},
      {R"([{"requests": 0, "tokens": 1, "points": [{"percent": 1, "requests_per_s": 1}]}])",
       "requests"},
      {R"([{"requests": 1, "points": [{"percent": 1, "requests_per_s": 1}]}])", "tokens"},
      {R"([{"requests": 1, "tokens": 1, "points": [{"percent": 0, "requests_per_s": 1}]}])",
       "percent"},
      {R"([{"requests": 1, "tokens": 1, "points": [{"percent": 101, "requests_per_s": 1}]}])",
       "percent"},
      {R"([{"requests": 1, "tokens": 1, "points": [{"percent": 1, "requests_per_s": -1}]}])",
       "requests_per_s"},
      {R"([{"requests": 1, "tokens": 1, "points": [{"percent": 2, "requests_per_s": 1},
           {"percent": 1, "requests_per_s": 1}]}])",
       "ascend"},
      {R"([{"requests": 1, "tokens": 1, "points": [{"percent": 1, "requests_per_s": 1}]},
           {"requests": 1, "tokens": 1, "points": [{"percent": 1, "requests_per_s": 1}]}])",
       "ascend"}};
  for (const auto& [curves, named] : cases) {
    const Error error = error_of(text("1", curves));
    EXPECT_NE(error.message.find(named), std::string::npos) << curves << ": " << error.message;
    EXPECT_NE(error.message.find(path_), std::string::npos) << error.message;
  }
}

// Any prefix of a file, and any file with one byte changed, is refused or is a valid profile.
TEST_F(KneeFileTest, SurvivesDamage) {
  ASSERT_TRUE(write_knee_profile(profile_, path_));
  std::ifstream file(path_);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) error_of(whole.substr(0, bytes));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
    std::ofstream(path_) << damaged;
    if (const auto read = read_knee_profile(path_)) {
      ASSERT_FALSE(read->curves.empty());
      EXPECT_GT(read->knee_percent(), 0);
    }
  }
}

TEST_F(KneeFileTest, NamesDifferByDeviceAndBackbone) {
  EXPECT_EQ(knee_file_name("a", "b"), knee_file_name("a", "b"));
  EXPECT_NE(knee_file_name("a", "b"), knee_file_name("a", "c"));
  EXPECT_NE(knee_file_name("a", "b"), knee_file_name("b", "b"));
}

}  // namespace
}  // namespace itif::serving
