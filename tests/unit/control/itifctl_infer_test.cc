// itifctl infer against a responder on a UDP socket, and the file in which it keeps tenants' keys.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "control/hex.h"
#include "itifctl_fixture.h"
#include "key_store.h"
#include "responder.h"

namespace itif::control {
namespace {

using nlohmann::json;

TEST_F(ItifctlTest, KeepsKeysForInferInAPrivateFile) {
  start();
  add_sentiment();
  const std::string path = dir_ / "config/itif/keys.json";
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const ctl::KeyStore store(path);
  auto found = store.find(options_.endpoint, 1);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->key_hex, to_hex(appliance_->record(1).key.bytes));
  good({"tenant", "rotate-key", "sentiment"});
  found = store.find(options_.endpoint, 1);
  EXPECT_EQ((*found)->key_hex, to_hex(appliance_->record(1).key.bytes));
  EXPECT_EQ((*found)->epoch, 2);
  good({"tenant", "remove", "sentiment"});
  EXPECT_FALSE(*store.find(options_.endpoint, 1));

  good({"tenant", "add", "b", "--model", "/m", "--no-save-key"});
  EXPECT_FALSE(*store.find(options_.endpoint, 2));
  // If a key cannot be kept, itifctl still prints it, warns, and exits with 0.
  ::chmod(path.c_str(), 0644);
  const Ran added = run({"tenant", "add", "c", "--model", "/m"});
  EXPECT_EQ(added.exit_code, 0);
  EXPECT_TRUE(has(added.err, "not kept")) << added.err;
  EXPECT_TRUE(has(added.out, to_hex(appliance_->record(3).key.bytes)));
}

TEST_F(ItifctlTest, InfersOverUdp) {
  start();
  add_sentiment();
  Responder responder(appliance_->record(1).key.bytes);
  const std::string address = "127.0.0.1:" + std::to_string(responder.port);
  const std::string table = good({"infer", "sentiment", "a fine film", "--address", address});
  EXPECT_TRUE(has(table, "POSITIVE       0.9000")) << table;
  EXPECT_TRUE(has(table, "answered by version 7 in ")) << table;
  EXPECT_EQ(responder.seen_text(), "a fine film");
  EXPECT_EQ(responder.seen_epoch, 1);

  const json answer = json::parse(good({"--json", "infer", "1", "x", "--address", address}));
  EXPECT_EQ(answer["classes"][0]["label"], "POSITIVE");
  EXPECT_EQ(answer["server_ns"], 1'234'000);

  input_ = dir_ / "input";
  std::ofstream(input_) << "from a pipe";
  good({"infer", "sentiment", "-", "--address", address});
  EXPECT_EQ(responder.seen_text(), "from a pipe");
  good({"infer", "sentiment", "one", "--pair", "two", "--address", address});
  EXPECT_EQ(responder.seen_text(), std::string("one\0two", 7));

  responder.refuse_with = wire::StatusCode::kOverQuota;
  expect_failure({"infer", "sentiment", "x", "--address", address}, 1, "over_quota");
}

TEST_F(ItifctlTest, InferFailsAtOnceIfNobodyListens) {
  start();
  add_sentiment();
  std::string address;
  {
    Responder gone(appliance_->record(1).key.bytes);
    address = "127.0.0.1:" + std::to_string(gone.port);
  }
  const auto start = std::chrono::steady_clock::now();
  expect_failure({"--timeout", "60s", "infer", "sentiment", "x", "--address", address}, 3,
                 "nobody listens on 127.0.0.1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(ItifctlTest, InfersIdsAndPrintsGeneratedText) {
  start();
  add_sentiment();
  Responder responder(appliance_->record(1).key.bytes);
  const std::string address = "127.0.0.1:" + std::to_string(responder.port);
  const std::string printed =
      good({"infer", "sentiment", "--ids", "7,300", "--result", "tokens", "--address", address});
  EXPECT_TRUE(has(printed, "17 58100 0\n")) << printed;
  EXPECT_EQ(responder.seen_text(), std::string("\x07\0\0\0\x2c\x01\0\0", 8));
  EXPECT_TRUE(has(good({"infer", "sentiment", "a day", "--result", "text", "--address", address}),
                  "ein Tag\n"));
  const json ids = json::parse(good(
      {"--json", "infer", "sentiment", "--ids", "7", "--result", "tokens", "--address", address}));
  EXPECT_EQ(ids["tokens"], (std::vector<uint32_t>{17, 58100, 0}));
  EXPECT_EQ(run({"infer", "sentiment", "--address", address}).exit_code, 2);
}

TEST_F(ItifctlTest, InfersPictures) {
  start();
  add_sentiment();
  Responder responder(appliance_->record(1).key.bytes);
  const std::string address = "127.0.0.1:" + std::to_string(responder.port);
  // One red and one blue pixel, side by side.
  const unsigned char png[] = {137, 80,  78,  71,  13,  10, 26,  10, 0,  0,  0,   13,  73,  72,
                               68,  82,  0,   0,   0,   2,  0,   0,  0,  1,  8,   2,   0,   0,
                               0,   123, 64,  232, 221, 0,  0,   0,  13, 73, 68,  65,  84,  120,
                               156, 99,  248, 207, 0,   4,  255, 1,  7,  0,  1,   255, 226, 35,
                               158, 89,  0,   0,   0,   0,  73,  69, 78, 68, 174, 66,  96,  130};
  std::ofstream(dir_ / "p.png").write(reinterpret_cast<const char*>(png), sizeof png);
  const std::string table =
      good({"infer", "sentiment", "--image", dir_ / "p.png", "--address", address});
  EXPECT_TRUE(has(table, "POSITIVE       0.9000")) << table;
  EXPECT_EQ(responder.seen_text(), std::string("\x01\0\x02\0\x03\0\0\0\xff\0\0\0\0\xff", 14));
  good({"infer", "1", "--image", dir_ / "p.png", "--channels", "1", "--address", address});
  EXPECT_EQ(responder.seen_text().substr(0, 6), std::string("\x01\0\x02\0\x01\0", 6));
  expect_failure({"infer", "1", "--image", dir_ / "none.png", "--address", address}, 5, "none.png");
  EXPECT_EQ(run({"infer", "1", "x", "--image", "p", "--address", address}).exit_code, 2);
}

TEST_F(ItifctlTest, InferTakesTheKeyFromOptionFileOrEnvironment) {
  start();
  const std::string key = add("a")["key"];  // not added by itifctl, so no key is kept
  Responder responder(appliance_->record(1).key.bytes);
  const std::string address = "127.0.0.1:" + std::to_string(responder.port);
  expect_failure({"infer", "a", "x", "--address", address}, 5, "--key");
  good({"infer", "a", "x", "--address", address, "--key", key});
  std::ofstream(dir_ / "key") << key << "\n";
  ::chmod((dir_ / "key").c_str(), 0600);
  good({"infer", "a", "x", "--address", address, "--key-file", dir_ / "key"});
  ::chmod((dir_ / "key").c_str(), 0644);
  expect_failure({"infer", "a", "x", "--address", address, "--key-file", dir_ / "key"}, 5,
                 "chmod 600");
  environment_ = {"ITIF_KEY=" + key};
  good({"infer", "a", "x", "--address", address});
  environment_ = {"ITIF_KEY=123"};
  expect_failure({"infer", "a", "x", "--address", address}, 5, "ITIF_KEY is not a key");
  environment_ = {"ITIF_KEY=" + std::string(32, '0')};  // a wrong key gets no answer
  expect_failure({"infer", "a", "x", "--address", address, "--timeout", "2s"}, 4,
                 "does not answer strangers: check the tenant's id, key, epoch and authentication");
  expect_failure({"infer", "a", "x", "--address", "h:0"}, 2, "HOST:PORT");
}

TEST_F(ItifctlTest, KeysOfAnOldRegistryAreNotUsed) {
  start();
  add_sentiment();
  server_.reset();
  options_.state_dir = dir_ / "fresh";  // a new registry: ids start at 1 again
  clock_.advance_ns(1);
  appliance_ = std::make_unique<FakeAppliance>();
  start();
  add("other");
  expect_failure({"infer", "other", "x"}, 5, "has no key");
}

}  // namespace
}  // namespace itif::control
