// itif-loadgen's command line: options it accepts, and the errors for wrong ones.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tools/itif-loadgen/options.h"

namespace itif::loadgen {
namespace {

constexpr const char* kTenant = "acme:7:000102030405060708090a0b0c0d0e0f:3:full";

Command parse(std::vector<std::string> arguments) {
  return parse_command(arguments);
}

std::string array_of(const std::string& object) {
  return "[" + object + "]";
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    path =
        testing::TempDir() + "loadgen_options_" + std::to_string(reinterpret_cast<uintptr_t>(this));
    std::ofstream(path) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::string path;
};

TEST(LoadgenOptions, DefaultsAndTenant) {
  const Command command = parse({"198.18.0.1", "--tenant", kTenant});
  ASSERT_TRUE(command.run) << command.text;
  const Options& options = command.options;
  EXPECT_EQ(options.server, "198.18.0.1");
  EXPECT_EQ(options.port, 9009);
  EXPECT_EQ(options.arrivals, Arrivals::kPoisson);
  EXPECT_EQ(options.duration_ns, 10'000'000'000u);
  ASSERT_EQ(options.targets.size(), 1u);
  EXPECT_EQ(options.targets[0].name, "acme");
  EXPECT_EQ(options.targets[0].credential.tenant_id, 7u);
  EXPECT_EQ(options.targets[0].credential.key_epoch, 3u);
  EXPECT_EQ(options.targets[0].credential.auth, wire::Auth::kFull);
  EXPECT_EQ(options.targets[0].credential.key[15], std::byte{15});
}

TEST(LoadgenOptions, AllOptionsTogether) {
  TemporaryFile texts("one\r\n\ntwo words\n");
  const Command command = parse({"::1",
                                 "-p",
                                 "1234",
                                 "--tenant",
                                 kTenant,
                                 "--tenant",
                                 "b:8:ffffffffffffffffffffffffffffffff",
                                 "--weight",
                                 "b=2.5",
                                 "--concurrency",
                                 "16",
                                 "--duration",
                                 "1.5s",
                                 "--warmup",
                                 "250ms",
                                 "--texts",
                                 texts.path,
                                 "--result",
                                 "classes",
                                 "--budget",
                                 "25ms",
                                 "--no-cache",
                                 "--tries",
                                 "1",
                                 "--rto",
                                 "10ms",
                                 "--timeout",
                                 "1s",
                                 "--threads",
                                 "2",
                                 "--flows",
                                 "4",
                                 "--seed",
                                 "99",
                                 "--json",
                                 "-"});
  ASSERT_TRUE(command.run) << command.text;
  const Options& options = command.options;
  EXPECT_EQ(options.arrivals, Arrivals::kClosed);
  EXPECT_EQ(options.payload_kind, wire::PayloadKind::kText);
  EXPECT_EQ(options.texts, (std::vector<std::string>{"one", "two words"}));
  EXPECT_EQ(options.result_kind, wire::ResultKind::kClasses);
  EXPECT_EQ(options.deadlines.kind, Deadlines::Kind::kFixed);
  EXPECT_EQ(options.deadlines.first_us, 25'000u);
  EXPECT_EQ(options.targets[1].weight, 2.5);
  EXPECT_EQ(options.targets[1].credential.key_epoch, 1u);
  EXPECT_EQ(options.retry.max_tries, 1u);
  EXPECT_EQ(options.retry.timeout_ns, 1'000'000'000u);
  EXPECT_EQ(options.warmup_ns, 250'000'000u);
}

TEST(LoadgenOptions, ServerAndPort) {
  const struct {
    const char* text;
    const char* server;
    uint16_t port;
  } kCases[] = {{"198.18.0.1:1234", "198.18.0.1", 1234},
                {"198.18.0.1", "198.18.0.1", 77},
                {"[fd00::1]:1234", "fd00::1", 1234},
                {"fd00::1", "fd00::1", 77},
                {"[fd00::1]", "fd00::1", 77},
                {"box:5", "box", 5}};
  for (const auto& one : kCases) {
    const Command command = parse({"--server", one.text, "--port", "77", "--tenant", kTenant});
    ASSERT_TRUE(command.run) << command.text;
    EXPECT_EQ(command.options.server, one.server);
    EXPECT_EQ(command.options.port, one.port);
  }
  for (const char* bad : {"h:", "h:0", "h:70000", "h:x", ":5", "[::1", "[::1]x", "[::1]:", "h:1x"})
    EXPECT_EQ(parse({bad, "--tenant", kTenant}).exit_code, 2) << bad;
}

TEST(LoadgenOptions, HelpAndVersionAreNoErrors) {
  for (const char* option : {"--help", "--version"}) {
    const Command command = parse({option});
    EXPECT_FALSE(command.run);
    EXPECT_EQ(command.exit_code, 0);
    EXPECT_FALSE(command.text.empty());
  }
  EXPECT_NE(parse({"--help"}).text.find("Exit status"), std::string::npos);
}

TEST(LoadgenOptions, ErrorsNameTheMistake) {
  const struct {
    std::vector<std::string> arguments;
    const char* expected;
  } kCases[] = {
      {{}, "server"},
      {{"h"}, "--tenant"},
      {{"h", "--tenant", kTenant, "--no-such-option"}, "no-such-option"},
      {{"h", "--tenant", "a:1"}, "3 to 5 fields"},
      {{"h", "--tenant", "a:x:000102030405060708090a0b0c0d0e0f"}, "id is not a number"},
      {{"h", "--tenant", "a:1:0001"}, "32 hexadecimal"},
      {{"h", "--tenant", "a:1:000102030405060708090a0b0c0d0e0g"}, "32 hexadecimal"},
      {{"h", "--tenant", "a:1:000102030405060708090a0b0c0d0e0f:70000"}, "epoch"},
      {{"h", "--tenant", "a:1:000102030405060708090a0b0c0d0e0f:1:strong"}, "auth"},
      {{"h", "--tenant", ":1:000102030405060708090a0b0c0d0e0f"}, "name is empty"},
      {{"h", "--tenant", kTenant, "--tenant", kTenant}, "two tenants"},
      {{"h", "--tenant", kTenant, "--weight", "nobody=2"}, "--weight nobody=2"},
      {{"h", "--tenant", kTenant, "--weight", "acme=0"}, "above 0"},
      {{"h", "--tenant", kTenant, "--weight", "acme=2x"}, "above 0"},
      {{"h", "--tenant", kTenant, "--duration", "10"}, "--duration"},
      {{"h", "--tenant", kTenant, "--duration", "0s"}, "--duration"},
      {{"h", "--tenant", kTenant, "--rate", "-1"}, "--rate"},
      {{"h", "--tenant", kTenant, "--rate", "nan"}, "--rate"},
      {{"h", "--tenant", kTenant, "--rate", "5", "--concurrency", "2"}, "one of them"},
      {{"h", "--tenant", kTenant, "--arrivals", "bursty"}, "poisson or constant"},
      {{"h", "--tenant", kTenant, "--lengths", "fixed:0"}, "--lengths"},
      {{"h", "--tenant", kTenant, "--lengths", "uniform:9-3"}, "--lengths"},
      {{"h", "--tenant", kTenant, "--lengths", "normal:10"}, "--lengths"},
      {{"h", "--tenant", kTenant, "--lengths", "zipf:10"}, "--lengths"},
      {{"h", "--tenant", kTenant, "--lengths", "fixed:nan"}, "--lengths"},
      {{"h", "--tenant", kTenant, "--payload", "audio"}, "--payload"},
      {{"h", "--tenant", kTenant, "--payload", "text"}, "--texts"},
      {{"h", "--tenant", kTenant, "--payload", "image_u8"}, "--payload image_u8: must be"},
      {{"h", "--tenant", kTenant, "--payload", "image_u8:224x224"}, "--payload"},
      {{"h", "--tenant", kTenant, "--payload", "image_u8:224x224x3x1"}, "--payload"},
      {{"h", "--tenant", kTenant, "--payload", "image_u8:224x0x3"}, "--payload"},
      {{"h", "--tenant", kTenant, "--payload", "image_f64:2x2x3"}, "--payload"},
      {{"h", "--tenant", kTenant, "--payload", "image_f32:2000x2000x3"}, "--payload"},
      {{"h", "--tenant", kTenant, "--texts", "/no/such/file"}, "cannot be read"},
      {{"h", "--tenant", kTenant, "--vocab", "70000"}, "--vocab"},
      {{"h", "--tenant", kTenant, "--result", "poem"}, "--result"},
      {{"h", "--tenant", kTenant, "--budget", "2h"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "100ns"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "uniform:20ms-10ms"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "uniform:20ms"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "length:5ms,100ms"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "length:5ms,9000h"}, "--budget"},
      {{"h", "--tenant", kTenant, "--budget", "normal:5ms,1ms"}, "--budget"},
      {{"h", "--tenant", kTenant, "--payload", "image_u8:2x2x3", "--budget", "length:5ms,1us"},
       "--budget length"},
      {{"h", "--tenant", kTenant, "--fragment-bytes", "66"}, "multiple of 4"},
      {{"h", "--tenant", kTenant, "--tries", "0"}, "--tries"},
      {{"h", "--tenant", kTenant, "--threads", "0"}, "--threads"},
      {{"h", "--tenant", kTenant, "--concurrency", "2", "--threads", "4"}, "--concurrency"},
      {{"h", "--tenant", kTenant, "--malform", "0.5"}, "--flood"},
      {{"h", "--tenant", kTenant, "--flood", "--malform", "1.5"}, "--malform"},
      {{"h", "--tenant", kTenant, "--eal", "--no-pci"}, "--local-ip"},
      {{"h", "--tenant", kTenant, "--local-ip", "198.18.0.2", "--eal", " "}, "--eal needs"},
      {{"h", "--tenant", kTenant, "--eal-device", "net_null0"}, "need --eal"},
      {{"h", "--tenant", kTenant, "--server-mac", "02:00:00:00:00:01"}, "need --eal"},
      {{"h", "--tenants", "/no/such/file"}, "cannot read"},
  };
  for (const auto& one : kCases) {
    const Command command = parse(one.arguments);
    std::string shown;
    for (const std::string& argument : one.arguments) shown += argument + " ";
    SCOPED_TRACE(shown);
    EXPECT_FALSE(command.run);
    EXPECT_EQ(command.exit_code, 2);
    EXPECT_NE(command.text.find(one.expected), std::string::npos) << command.text;
    EXPECT_EQ(std::count(command.text.begin(), command.text.end(), '\n'), 1) << command.text;
  }
}

TEST(LoadgenOptions, Deadlines) {
  using Kind = Deadlines::Kind;
  const struct {
    const char* text;
    Kind kind;
    uint64_t first_us, second_us, max_us;
  } kCases[] = {{"25ms", Kind::kFixed, 25'000, 0, 25'000},
                {"fixed:1s", Kind::kFixed, 1'000'000, 0, 1'000'000},
                {"uniform:10ms-50ms", Kind::kUniform, 10'000, 50'000, 50'000},
                {"uniform:10ms:50ms", Kind::kUniform, 10'000, 50'000, 50'000},
                {"length:5ms,200us", Kind::kByLength, 5'000, 200, 5'000 + 65'536 * 200}};
  for (const auto& one : kCases) {
    const auto deadlines = parse_deadlines(one.text);
    ASSERT_TRUE(deadlines) << one.text;
    EXPECT_EQ(deadlines->kind, one.kind) << one.text;
    EXPECT_EQ(deadlines->first_us, one.first_us) << one.text;
    EXPECT_EQ(deadlines->second_us, one.second_us) << one.text;
    EXPECT_EQ(max_budget_us(*deadlines), one.max_us) << one.text;
  }
  EXPECT_EQ(max_budget_us({}), 0u);
}

TEST(LoadgenOptions, TenantFiles) {
  constexpr const char* kObject =
      R"({"id": 3, "name": "a", "key": "000102030405060708090a0b0c0d0e0f", "epoch": 2,
          "auth": "none", "group": "ignored"})";
  // The format of `itifctl tenant add --json`.
  constexpr const char* kAnswer =
      R"({"key": "000102030405060708090a0b0c0d0e0f",
          "tenant": {"id": 3, "name": "a", "key_epoch": 2, "auth": "none", "group": "ignored"}})";
  for (const std::string& text : {std::string(kObject), array_of(kObject), std::string(kAnswer),
                                  array_of(kAnswer), "{\"tenants\": " + array_of(kObject) + "}"}) {
    const TemporaryFile file(text);
    const auto targets = read_targets(file.path);
    ASSERT_TRUE(targets) << targets.error().message;
    ASSERT_EQ(targets->size(), 1u);
    EXPECT_EQ((*targets)[0].name, "a");
    EXPECT_EQ((*targets)[0].credential.tenant_id, 3u);
    EXPECT_EQ((*targets)[0].credential.key_epoch, 2u);
    EXPECT_EQ((*targets)[0].credential.auth, wire::Auth::kNone);
  }
  // The format of `itifctl --json tenant add`.
  const TemporaryFile added(
      R"({"tenant": {"id": 4, "name": "reviews", "auth": "full", "key_epoch": 6, "weight": 9},
          "key": "ff0102030405060708090a0b0c0d0e0f"})");
  const Command command = parse({"h", "--tenant", added.path});
  ASSERT_TRUE(command.run) << command.text;
  const Target& target = command.options.targets[0];
  EXPECT_EQ(target.name, "reviews");
  EXPECT_EQ(target.credential.tenant_id, 4u);
  EXPECT_EQ(target.credential.key_epoch, 6u);
  EXPECT_EQ(target.credential.auth, wire::Auth::kFull);
  EXPECT_EQ(target.credential.key[0], std::byte{0xff});
  EXPECT_EQ(target.weight, 1);  // the appliance's weight does not set the share of traffic

  const struct {
    const char* text;
    const char* expected;
  } kBad[] = {
      {"", "not JSON"},
      {"[]", "no tenant"},
      {"[3]", "entry 0"},
      {R"({"key": "000102030405060708090a0b0c0d0e0f"})", "'id'"},
      {R"({"id": -1, "key": "000102030405060708090a0b0c0d0e0f"})", "'id'"},
      {R"({"id": 1})", "'key'"},
      {R"({"id": 1, "key": "00"})", "'key'"},
      {R"({"id": 1, "key": "000102030405060708090a0b0c0d0e0f", "epoch": 99999})", "'epoch'"},
      {R"({"id": 1, "key": "000102030405060708090a0b0c0d0e0f", "auth": 1})", "'auth'"},
      {R"({"tenant": 5, "key": "000102030405060708090a0b0c0d0e0f"})", "'tenant'"},
      {R"({"tenant": {"id": 5}})", "'key'"},
      {R"({"id": 1, "id": 2, "key": "000102030405060708090a0b0c0d0e0f"})", "occurs twice"},
  };
  for (const auto& bad : kBad) {
    const TemporaryFile file(bad.text);
    const auto targets = read_targets(file.path);
    ASSERT_FALSE(targets) << bad.text;
    EXPECT_NE(targets.error().message.find(bad.expected), std::string::npos)
        << targets.error().message;
  }
}

}  // namespace
}  // namespace itif::loadgen
