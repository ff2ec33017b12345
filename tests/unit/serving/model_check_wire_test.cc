// Messages of the checker of models and its children. tests/fuzz/fuzz_model_check.cc tries more.
#include "serving/model_check_wire.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "serving/child_output.h"

namespace itif::serving {
namespace {

using nlohmann::json;

constexpr SandboxLimits kChildLimits{.memory_bytes = 1 << 30, .time_ns = 20'000'000'000};
constexpr const char* kDirectory = "/models/one";

TEST(ModelCheckWire, RequestsArriveAsTheyWereSent) {
  const ModelToCheck sent{{"/models/a b", "/models/\"base\""}, kChildLimits};
  const auto received = parse_request(request_for(sent));
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(received->files.directory, sent.files.directory);
  EXPECT_EQ(received->files.base, sent.files.base);
  EXPECT_EQ(received->limits.memory_bytes, kChildLimits.memory_bytes);
  EXPECT_EQ(received->limits.time_ns, kChildLimits.time_ns);
}

// Ended the supervisor with an exception.
TEST(ModelCheckWire, ARequestWithAnotherTypeIsRefused) {
  const json good = json::parse(request_for({{kDirectory}, kChildLimits}));
  for (const char* const key : {"directory", "base", "memory_bytes", "time_ns"}) {
    for (const json& value : {json(), json::array(), json(-1), json(1.5), json(true)}) {
      json request = good;
      request[key] = value;
      const auto parsed = parse_request(request.dump());
      ASSERT_FALSE(parsed) << request;
      EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    }
    json request = good;
    request.erase(key);
    EXPECT_FALSE(parse_request(request.dump()));
  }
  EXPECT_FALSE(parse_request("[]"));
}

TEST(ModelCheckWire, AnswersArriveAsTheyWereSent) {
  EXPECT_TRUE(parse_answer(answer_for({}), kDirectory));
  const Status done = parse_answer(answer_for(fail(Code::kNotFound, "no such file")), kDirectory);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kNotFound);
  EXPECT_EQ(done.error().message, "no such file");
}

TEST(ModelCheckWire, AnythingElseIsNoAnswer) {
  for (const char* const answer :
       {"", "{", "[]", "true", "{}", R"({"ok":false})", R"({"ok":1})", R"({"ok":true,"x":1})",
        R"({"code":"corrupt"})", R"({"code":1,"message":"x"})",
        R"({"code":"corrupt","message":""})"}) {
    const Status done = parse_answer(answer, kDirectory);
    ASSERT_FALSE(done) << answer;
    EXPECT_EQ(done.error().code, Code::kUnavailable) << answer;
    EXPECT_TRUE(done.error().message.starts_with(kDirectory));
  }
}

// Half of a character is no UTF-8: the log was damaged, and itifctl showed a sign in its place.
TEST(ModelCheckWire, ALongMessageIsCutBetweenCharacters) {
  for (size_t before = 0; before < 4; ++before) {
    std::string message(before, 'a');
    for (int i = 0; i < 2000; ++i) message += "€";
    const Status done = parse_answer(answer_for(fail(Code::kCorrupt, message)), kDirectory);
    ASSERT_FALSE(done);
    EXPECT_LE(done.error().message.size(), 4096u);
    EXPECT_GT(done.error().message.size(), 4096u - 4);
    EXPECT_NO_THROW((void)json(done.error().message).dump());
    EXPECT_TRUE(message.starts_with(done.error().message));
  }
}

TEST(ModelCheckWire, MessagesHaveNoControlCharacters) {
  const Status done =
      parse_answer(R"({"code":"corrupt","message":"a\u001b[2Jb\nc\u007f"})", kDirectory);
  EXPECT_EQ(done.error().message, "a?[2Jb?c?");
}

TEST(ChildOutput, SaysHowTheChildEnded) {
  const auto text = [](std::string_view output, int status, bool in_time = true) {
    const auto result = text_of_child(output, status, in_time, kChildLimits);
    return result ? *result : "! " + result.error().message;
  };
  EXPECT_EQ(text("warning\n\x1e{\"ok\":true}", 0), "{\"ok\":true}");
  EXPECT_EQ(text("\x1e"
                 "first\x1e"
                 "last",
                 0),
            "last");
  EXPECT_EQ(text("", 0), "! ended with status 0");
  EXPECT_EQ(text("\x1etext", 2 << 8), "! ended with status 2");
  EXPECT_EQ(text("what(): \xff\x01\n\n", SIGSEGV),
            "! crashed (signal 11, Segmentation fault) (what(): ?\?)");
  EXPECT_TRUE(text("\x1etext", 0, false).starts_with("! took longer than"));
  EXPECT_TRUE(text("", SIGXCPU).starts_with("! took longer than"));
  EXPECT_TRUE(text("", SIGSYS).starts_with("! made a system call"));
  EXPECT_TRUE(text("", SIGKILL).starts_with("! was killed"));
  EXPECT_LE(text(std::string(5000, 'x'), SIGABRT).size(), 300u);
}

}  // namespace
}  // namespace itif::serving
