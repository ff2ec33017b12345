#include "config/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "config/flatten.h"
#include "plan/planner_names.h"
#include "sched/batch_control.h"
#include "sched/policy_names.h"
#include "tensor/dtype.h"

namespace itif::config {
namespace {

// Writes `text` to a temporary file and loads it.
class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/itif-config-XXXXXX";
    const int fd = mkstemp(name);
    ASSERT_GE(fd, 0);
    close(fd);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<Config> load_text(const std::string& text) {
    std::ofstream(path_) << text;
    return load(path_);
  }

  // Returns the error message for `text`, or "" if it loads.
  std::string error_of(const std::string& text) {
    const auto config = load_text(text);
    if (config) return "";
    EXPECT_EQ(config.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(config.error().message.starts_with(path_)) << config.error().message;
    return config.error().message.substr(path_.size());
  }

  std::string path_;
};

const std::string kPort = "ports = ({ ipv4 = [\"198.18.0.1/24\"]; });\n";

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "message: " << (text)

TEST_F(ConfigTest, ExampleHasEveryKeyWithItsDefault) {
  const std::string path = std::string(ITIF_SOURCE_ROOT) + "/conf/itifd.conf";
  const auto loaded = load(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Config defaults;
  defaults.ports.resize(1);
  defaults.ports[0].ipv4 = {"198.18.0.1/24"};
  EXPECT_EQ(flatten(*loaded), flatten(defaults));

  // The file must name every key, even if the default applies.
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.starts_with('#')) lines.push_back(line);
  }
  for (const auto& [key, value] : flatten(defaults)) {
    const std::string name = key.substr(key.rfind('.') + 1) + " = ";
    const bool found = std::any_of(lines.begin(), lines.end(),
                                   [&](const std::string& line) { return line.starts_with(name); });
    EXPECT_TRUE(found) << key << " is missing in conf/itifd.conf";
  }
}

// A policy or planner needs no line in lib/config, but conf/itifd.conf must explain it.
TEST_F(ConfigTest, KnowsAndExplainsEveryBatchPolicyAndPlanner) {
  std::ifstream file(std::string(ITIF_SOURCE_ROOT) + "/conf/itifd.conf");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto check = [&](const std::string& key, const std::string& refusal,
                         const std::vector<std::string_view>& known_names) {
    std::string names;
    for (const std::string_view name : known_names) {
      const std::string quoted = "\"" + std::string(name) + "\"";
      EXPECT_EQ(error_of(kPort + "batching = { " + key + " = " + quoted + "; };"), "");
      EXPECT_CONTAINS(text, quoted);
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    EXPECT_CONTAINS(error_of(kPort + "batching = { " + key + " = \"magic\"; };"),
                    "batching." + key + refusal + names);
  };
  check("scheduler", ": 'magic' is not one of: ", sched::kPolicyNames);
  EXPECT_EQ(error_of(kPort + "batching = { scheduler = \"das:eta=0.3,fair\"; };"), "");
  EXPECT_CONTAINS(error_of(kPort + "batching = { scheduler = \"das:eta=1\"; };"),
                  "batching.scheduler: eta is '1': use a number between 0 and 1");
  check("batch_control", ": 'magic' is not one of: ",
        {sched::kBatchControlNames.begin(), sched::kBatchControlNames.end()});
  check("planner", ": unknown planner 'magic': use one of ", plan::kPlannerNames);
}

TEST_F(ConfigTest, ReadsThePlannersSettings) {
  const std::string good = "slotted:row_tokens=400,slot_tokens=50";
  const auto config = load_text(kPort + "batching = { planner = \"" + good + "\"; };");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->batching.planner, good);
  EXPECT_CONTAINS(error_of(kPort + "batching = { planner = \"concat:slot_tokens=50\"; };"),
                  "batching.planner: planner 'concat' has no setting 'slot_tokens'");
  EXPECT_CONTAINS(error_of(kPort + "batching = { planner = \"magic:row_tokens=5\"; };"),
                  "batching.planner: unknown planner 'magic': use one of ");
}

// An element type needs no line in lib/config, but the file must explain it.
TEST_F(ConfigTest, KnowsAndExplainsEveryDtype) {
  std::ifstream file(std::string(ITIF_SOURCE_ROOT) + "/conf/itifd.conf");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string names = "auto";
  for (const NamedComputeTypes& named : kComputeTypes) {
    const std::string quoted = fmt::format("\"{}\"", named.name);
    const auto config = load_text(kPort + "device = { dtype = " + quoted + "; };");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->device.dtype, named.name);
    EXPECT_CONTAINS(text, quoted);
    names += fmt::format(", {}", named.name);
  }
  EXPECT_CONTAINS(error_of(kPort + "device = { dtype = \"int8\"; };"),
                  "device.dtype: 'int8' is not one of: " + names);
}

TEST_F(ConfigTest, EveryExampleLoads) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ITIF_SOURCE_ROOT) + "/conf/examples")) {
    const auto config = load(entry.path());
    EXPECT_TRUE(config) << config.error().message;
    ++count;
  }
  EXPECT_GE(count, 8);
}

TEST_F(ConfigTest, ValuesArriveInTheirFields) {
  const auto config = load_text(R"(
    eal = { args = ["--no-huge", "-m", "512"]; };
    ports = ({ device = "net_null0"; ipv4 = ["198.18.0.1/24"]; ipv6 = ["fd00::1/64"];
               udp_port = 7; vlan = 12; num_queues = 2; num_workers = 3; rx_descriptors = 64; tx_descriptors = 128;
               mtu = 9000; path_mtu = 1280; });
    data_plane = { worker_lcores = [1, 2, 3]; polling = "busy"; idle_sleep = "1ms"; mbufs = 4096;
                   mbuf_bytes = "10KiB"; max_contexts = 100; max_held_bytes = "2MiB";
                   tenant_max_contexts = 50; tenant_max_held_bytes = "1MiB";
                   reassembly_timeout = "1.5s"; cache_bytes = 0; cache_ttl = "3s";
                   max_sessions = 99; max_unproven_replies = 98; answer_bad_tags = true; };
    device = { kind = "cuda"; ordinal = 2; dtype = "bf16"; attention = "cudnn";
               slices = "priorities"; threads = 3; unmet_demands = "proportional"; hold_down = "7s";
               cpus = [0, 3, 4]; memory = "3GiB"; };
    batching = { max_tokens = 64; max_requests = 8; max_tenants = 4; queue_requests = 9; };
    control = { endpoint = "ipc:///a"; events_endpoint = "ipc:///b";
                tcp_endpoint = "tcp://[::]:9010"; curve_secret_file = "s";
                authorized_keys_file = "k"; state_dir = "/x"; };
    telemetry = { prometheus = "127.0.0.1:9464"; log_level = "debug"; stages = false;
                  log_file = "/var/log/itifd.log"; };
    process = { user = "itif"; group = "7"; handover = false; seccomp = "log"; core_dumps = true;
                model_check = "off"; model_check_memory = "1GiB"; model_check_time = "5s"; };
    drain_timeout = "0s";)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->eal.args, (std::vector<std::string>{"--no-huge", "-m", "512"}));
  const Port& port = config->ports.at(0);
  EXPECT_EQ(port.device, "net_null0");
  EXPECT_EQ(port.ipv6, std::vector<std::string>{"fd00::1/64"});
  EXPECT_EQ(port.udp_port, 7);
  EXPECT_EQ(port.vlan, 12);
  EXPECT_EQ(port.num_queues, 2);
  EXPECT_EQ(port.workers(), 3);
  EXPECT_EQ(port.rx_descriptors, 64);
  EXPECT_EQ(port.tx_descriptors, 128);
  EXPECT_EQ(port.mtu, 9000u);
  EXPECT_EQ(port.path_mtu, 1280u);
  const DataPlane& plane = config->data_plane;
  EXPECT_EQ(plane.worker_lcores, (std::vector<unsigned>{1, 2, 3}));
  EXPECT_EQ(plane.polling, "busy");
  EXPECT_EQ(plane.idle_sleep_ns, 1'000'000u);
  EXPECT_EQ(plane.mbufs, 4096u);
  EXPECT_EQ(plane.mbuf_bytes, 10240u);
  EXPECT_EQ(plane.max_contexts, 100u);
  EXPECT_EQ(plane.max_held_bytes, 2u << 20);
  EXPECT_EQ(plane.tenant_max_contexts, 50u);
  EXPECT_EQ(plane.tenant_max_held_bytes, 1u << 20);
  EXPECT_EQ(plane.reassembly_timeout_ns, 1'500'000'000u);
  EXPECT_EQ(plane.cache_bytes, 0u);
  EXPECT_EQ(plane.cache_ttl_ns, 3'000'000'000u);
  EXPECT_EQ(plane.max_sessions, 99u);
  EXPECT_EQ(plane.max_unproven_replies, 98u);
  EXPECT_TRUE(plane.answer_bad_tags);
  EXPECT_EQ(config->device.kind, "cuda");
  EXPECT_EQ(config->device.ordinal, 2u);
  EXPECT_EQ(config->device.memory_bytes, uint64_t{3} << 30);
  EXPECT_EQ(config->device.dtype, "bf16");
  EXPECT_EQ(config->device.attention, "cudnn");
  EXPECT_EQ(config->device.slices, "priorities");
  EXPECT_EQ(config->device.unmet_demands, "proportional");
  EXPECT_EQ(config->device.hold_down_ns, 7'000'000'000u);
  EXPECT_EQ(config->device.threads, 3u);
  EXPECT_EQ(config->device.cpus, (std::vector<unsigned>{0, 3, 4}));
  EXPECT_EQ(config->batching.max_tokens, 64u);
  EXPECT_EQ(config->batching.max_requests, 8u);
  EXPECT_EQ(config->batching.max_tenants, 4u);
  EXPECT_EQ(config->batching.queue_requests, 9u);
  EXPECT_EQ(config->control.tcp_endpoint, "tcp://[::]:9010");
  EXPECT_EQ(config->control.curve_secret_file, "s");
  EXPECT_EQ(config->control.authorized_keys_file, "k");
  EXPECT_EQ(config->control.state_dir, "/x");
  EXPECT_EQ(config->telemetry.prometheus, "127.0.0.1:9464");
  EXPECT_EQ(config->telemetry.log_level, "debug");
  EXPECT_FALSE(config->telemetry.stages);
  EXPECT_EQ(config->telemetry.log_file, "/var/log/itifd.log");
  EXPECT_TRUE(config->process.core_dumps);
  EXPECT_EQ(config->process.model_check, "off");
  EXPECT_EQ(config->process.model_check_memory_bytes, 1u << 30);
  EXPECT_EQ(config->process.model_check_time_ns, 5'000'000'000u);
  EXPECT_EQ(config->process.user, "itif");
  EXPECT_EQ(config->process.group, "7");
  EXPECT_FALSE(config->process.handover);
  EXPECT_EQ(config->process.seccomp, "log");
  EXPECT_EQ(config->drain_timeout_ns, 0u);
}

TEST_F(ConfigTest, MissingFileIsNotFound) {
  const auto config = load("/nonexistent/itifd.conf");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Code::kNotFound);
  EXPECT_CONTAINS(config.error().message, "/nonexistent/itifd.conf");
}

TEST_F(ConfigTest, SyntaxErrorNamesTheLine) {
  EXPECT_CONTAINS(error_of("eal = {\n  args = [ ;\n};\n"), ":2: syntax error");
}

TEST_F(ConfigTest, DuplicateKeyNamesTheLine) {
  EXPECT_CONTAINS(error_of("drain_timeout = \"1s\";\ndrain_timeout = \"2s\";\n"), ":2: ");
}

TEST_F(ConfigTest, UnknownKeysAreRefusedWithTheKnownOnes) {
  const std::string nested = error_of(kPort + "data_plane = {\n  pollling = \"busy\";\n};\n");
  EXPECT_CONTAINS(nested, ":3: data_plane.pollling: unknown key");
  EXPECT_CONTAINS(nested, "polling");
  EXPECT_CONTAINS(error_of(kPort + "dataplane = { };\n"), ":2: dataplane: unknown key");
  EXPECT_CONTAINS(error_of("ports = ({ ipv4 = [\"198.18.0.1/24\"];\n mtuu = 1; });\n"),
                  ":2: ports[0].mtuu: unknown key");
}

struct Refused {
  const char* text;
  const char* message;
};

TEST_F(ConfigTest, WrongTypesAndValuesOutOfRangeNameLineAndKey) {
  const Refused cases[] = {
      {"data_plane = 1;", ":2: data_plane: expected a group { }, found an integer"},
      {"batching = { max_tokens = \"64\"; };",
       "batching.max_tokens: expected an integer, found a string"},
      {"batching = { max_tokens = 1.5; };",
       "batching.max_tokens: expected an integer, found a floating"},
      {"batching = { max_tokens = -1; };", "batching.max_tokens: -1 is out of range"},
      {"batching = { max_tokens = 9223372036854775807L; };",
       "batching.max_tokens: 9223372036854775807 is"},
      {"data_plane = { idle_sleep = 50; };", "data_plane.idle_sleep: expected a duration string"},
      {"data_plane = { idle_sleep = \"50\"; };", "data_plane.idle_sleep: '50' is not a duration"},
      {"data_plane = { idle_sleep = \"2s\"; };", "data_plane.idle_sleep: '2s' is out of range"},
      {"data_plane = { max_held_bytes = \"64 gibi\"; };",
       "data_plane.max_held_bytes: '64 gibi' is not a size"},
      {"data_plane = { max_held_bytes = \"1B\"; };",
       "data_plane.max_held_bytes: '1B' is out of range"},
      {"data_plane = { polling = \"lazy\"; };",
       "data_plane.polling: 'lazy' is not one of: adaptive, busy"},
      {"data_plane = { polling = true; };",
       "data_plane.polling: expected a string, found a boolean"},
      {"data_plane = { answer_bad_tags = 1; };",
       "data_plane.answer_bad_tags: expected true or false"},
      {"data_plane = { max_sessions = 15; };", "data_plane.max_sessions: 15 is out of range"},
      {"data_plane = { worker_lcores = [1000]; };",
       "data_plane.worker_lcores: 1000 is out of range"},
      {"data_plane = { worker_lcores = [\"1\"]; };",
       "expected an array of integers, found a string"},
      {"data_plane = { worker_lcores = 1; };", "expected an array of integers, found an integer"},
      {"eal = { args = \"--no-huge\"; };",
       "eal.args: expected an array of strings, found a string"},
      {"eal = { args = [1]; };", "eal.args: expected an array of strings, found an integer"},
      {"device = { kind = \"tpu\"; };", "device.kind: 'tpu' is not one of: auto, host, cuda"},
      {"device = { ordinal = -1; };", "device.ordinal: -1 is out of range: allowed are 0 to 255"},
      {"device = { ordinal = 256; };", "device.ordinal: 256 is out of range"},
      {"device = { ordinal = \"GPU-1\"; };", "device.ordinal: expected an integer, found a string"},
      {"telemetry = { log_level = \"chatty\"; };", "telemetry.log_level: 'chatty' is not one of"},
      {"telemetry = { stages = 1; };", "telemetry.stages: expected true or false"},
      {"telemetry = { stages = \"yes\"; };", "telemetry.stages: expected true or false"},
      {"telemetry = { log_file = \"itifd.log\"; };",
       "telemetry.log_file: 'itifd.log' is not an absolute path"},
      {"device = { cpus = [1, 0, 1]; };", "device.cpus names a CPU twice"},
      {"device = { cpus = [0, 1]; threads = 3; };",
       "device.threads is 3, but device.cpus has 2: at most one thread per CPU"},
      {"process = { seccomp = \"strict\"; };",
       "process.seccomp: 'strict' is not one of: auto, refuse, kill, log, off"},
      {"process = { model_check = \"yes\"; };",
       "process.model_check: 'yes' is not one of: sandbox, off"},
      {"process = { core_dumps = 1; };", "process.core_dumps: expected true or false"},
      {"control = { state_dir = [ ]; };", "control.state_dir: expected a string, found an array"},
      {"drain_timeout = 10;", "drain_timeout: expected a duration string"},
  };
  for (const Refused& refused : cases)
    EXPECT_CONTAINS(error_of(kPort + refused.text), refused.message);
}

TEST_F(ConfigTest, PortsMustBeAListOfGroups) {
  EXPECT_CONTAINS(error_of("ports = { };"), ":1: ports: expected a list ( ), found a group");
  EXPECT_CONTAINS(error_of("ports = (1);"), ":1: ports[0]: expected a group { }, found an integer");
  EXPECT_CONTAINS(error_of("ports = ({ udp_port = 0; });"), "ports[0].udp_port: 0 is out of range");
  EXPECT_CONTAINS(error_of("ports = ({ udp_port = 65536; });"), "65536 is out of range");
}

TEST_F(ConfigTest, ContradictionsAreRefused) {
  const auto port = [](const std::string& keys) { return "ports = ({ " + keys + " });"; };
  const std::string address = "ipv4 = [\"198.18.0.1/24\"]; ";
  EXPECT_CONTAINS(error_of(""), "ports is empty");
  EXPECT_CONTAINS(error_of(port("")), "ports[0] has no address");
  for (const char* wrong :
       {"198.18.0.1", "198.18.0.1/33", "198.18.0.1/", "198.18.0/24", "x/8", "/8"})
    EXPECT_CONTAINS(error_of(port("ipv4 = [\"" + std::string(wrong) + "\"];")), wrong);
  for (const char* wrong : {"fd00::1", "fd00::1/129", "198.18.0.1/24"})
    EXPECT_CONTAINS(error_of(port("ipv6 = [\"" + std::string(wrong) + "\"];")), wrong);
  EXPECT_CONTAINS(error_of(port("ipv4 = [\"198.18.0.1/24\", \"198.18.0.1/16\"];")), "listed twice");
  EXPECT_CONTAINS(error_of(port(address + "path_mtu = 1501;")), "path_mtu 1501 is larger");
  EXPECT_CONTAINS(error_of(port(address + "path_mtu = 500;")), "less than the 576");
  EXPECT_CONTAINS(error_of(port("ipv6 = [\"fd00::1/64\"]; path_mtu = 1000;")),
                  "less than the 1280");
  EXPECT_CONTAINS(error_of("ports = ({ " + address + "}, { ipv4 = [\"198.18.0.2/24\"]; });"),
                  "ports[0].device is empty");
  EXPECT_CONTAINS(error_of("ports = ({ device = \"a\"; " + address +
                           "}, { device = \"a\"; ipv4 = [\"198.18.0.2/24\"]; });"),
                  "'a' is listed twice");
  EXPECT_CONTAINS(error_of(kPort + "data_plane = { worker_lcores = [1, 2]; };"),
                  "lists 2 lcores for 1 workers");
  EXPECT_CONTAINS(error_of(port(address + "num_queues = 65;")), "65 workers together");
  EXPECT_CONTAINS(error_of(port(address + "num_workers = 65;")), "65 workers together");
  EXPECT_CONTAINS(error_of(port(address + "num_queues = 4; num_workers = 2;")),
                  "num_workers 2 is less than num_queues 4");
  EXPECT_CONTAINS(
      error_of(port(address + "num_queues = 2;") + "data_plane = { worker_lcores = [1, 1]; };"),
      "an lcore twice");
  EXPECT_CONTAINS(error_of(kPort + "data_plane = { mbufs = 2000; };"), "mbufs 2000 is less");
  EXPECT_CONTAINS(error_of(kPort + "data_plane = { max_contexts = 100; };"),
                  "tenant_max_contexts 4096 is larger than max_contexts 100");
  EXPECT_CONTAINS(error_of(kPort + "data_plane = { max_held_bytes = \"1MiB\"; };"),
                  "tenant_max_held_bytes");
  EXPECT_CONTAINS(error_of(kPort + "device = { kind = \"host\"; ordinal = 1; };"),
                  "device.ordinal 1 names a GPU, but device.kind is \"host\"");
  EXPECT_CONTAINS(error_of(kPort + "batching = { max_tokens = 15; };"),
                  "batching.max_tokens 15 is less than 16; 0 stands for the device's default");
  EXPECT_EQ(error_of(kPort + "batching = { max_tokens = 16; };"), "");
  EXPECT_EQ(error_of(kPort + "batching = { max_tokens = 0; };"), "");
  EXPECT_EQ(error_of(kPort + "device = { kind = \"auto\"; ordinal = 1; };"), "");
  EXPECT_EQ(error_of(kPort + "device = { kind = \"host\"; ordinal = 0; };"), "");
  EXPECT_CONTAINS(error_of(kPort + "control = { endpoint = \"tcp://0.0.0.0:1\"; };"),
                  "control.endpoint: 'tcp://0.0.0.0:1' is not an ipc endpoint");
  EXPECT_CONTAINS(
      error_of(kPort + "control = { endpoint = \"ipc:///" + std::string(120, 'a') + "\"; };"),
      "longer than");
  EXPECT_CONTAINS(error_of(kPort + "control = { endpoint = \"ipc:///run/itif/events.sock\"; };"),
                  "are both");
  EXPECT_CONTAINS(error_of(kPort + "control = { state_dir = \"\"; };"), "state_dir is empty");
  EXPECT_CONTAINS(error_of(kPort + "control = { tcp_endpoint = \"tcp://0.0.0.0:9010\"; };"),
                  "needs curve_secret_file and authorized_keys_file");
  for (const char* wrong : {"9010", "tcp://:9010", "tcp://h:0", "tcp://h:65536", "tcp://h"})
    EXPECT_CONTAINS(error_of(kPort + "control = { tcp_endpoint = \"" + wrong + "\"; };"),
                    "is not a TCP endpoint");
  for (const char* wrong : {"9464", ":9464", "localhost:", "localhost:x"})
    EXPECT_CONTAINS(error_of(kPort + "telemetry = { prometheus = \"" + wrong + "\"; };"),
                    "is not HOST:PORT");
}

TEST_F(ConfigTest, ErrorInAnIncludedFileNamesThatFile) {
  const std::string included = path_ + ".inc";
  std::ofstream(included) << "\n\ndrain_timeout = 1;\n";
  const auto config = load_text(kPort + "@include \"" + included + "\"\n");
  std::filesystem::remove(included);
  ASSERT_FALSE(config);
  EXPECT_CONTAINS(config.error().message, included + ":3: drain_timeout");
}

}  // namespace
}  // namespace itif::config
