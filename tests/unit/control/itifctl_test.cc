// The itifctl program: tables, JSON, exit codes, completion.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include "control/curve.h"
#include "control/hex.h"
#include "itifctl_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

TEST_F(ItifctlTest, AdministersATenant) {
  start();
  const Ran added = run({"tenant", "add", "sentiment", "--model", "/models/s", "--slo", "25ms",
                         "--weight", "2", "--quota-rps", "500", "--auth", "full", "--group", "g"});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  const tenant::Record record = appliance_->record(1);
  EXPECT_EQ(record.slo_ns, 25'000'000u);
  EXPECT_EQ(record.weight, 2u);
  EXPECT_EQ(record.quota_rps, 500u);
  EXPECT_EQ(record.auth, 2);
  EXPECT_EQ(record.group, "g");
  EXPECT_TRUE(has(added.out, to_hex(record.key.bytes))) << added.out;
  EXPECT_TRUE(has(added.err, "packing 100%\n")) << added.err;  // progress as lines

  const std::string list = good({"tenant", "list"});
  EXPECT_TRUE(has(list, "ID  NAME")) << list;
  EXPECT_TRUE(has(list, " 1  sentiment  serving")) << list;
  EXPECT_TRUE(has(list, "25.0 ms") || has(list, "25 ms")) << list;
  EXPECT_TRUE(has(good({"tenant", "show", "sentiment"}), "labels      NEGATIVE, POSITIVE"));
  EXPECT_TRUE(has(good({"tenant", "show", "1"}), "500 requests/s"));
  EXPECT_TRUE(has(good({"tenant", "pause", "sentiment"}), "paused"));
  EXPECT_TRUE(has(good({"tenant", "resume", "sentiment"}), "resumed"));
  good({"tenant", "update", "sentiment", "--name", "mood", "--quota-rps", "0"});
  EXPECT_EQ(appliance_->record(1).name, "mood");
  EXPECT_EQ(appliance_->record(1).quota_rps, 0u);
  EXPECT_EQ(appliance_->record(1).weight, 2u);
  good({"tenant", "update", "mood", "--reload"});
  EXPECT_EQ(appliance_->calls.back(), "reload mood");
  const std::string rotated = good({"tenant", "rotate-key", "mood"});
  EXPECT_TRUE(has(rotated, to_hex(appliance_->record(1).key.bytes))) << rotated;
  EXPECT_TRUE(has(good({"tenant", "show", "mood"}), "2 (and 1 until it is dropped)"));
  good({"tenant", "rotate-key", "mood", "--drop-previous"});
  EXPECT_FALSE(appliance_->record(1).has_previous_key);
  good({"tenant", "remove", "mood"});
  EXPECT_EQ(appliance_->size(), 0u);
}

TEST_F(ItifctlTest, NumbersHaveDecimalDigitsOnly) {
  start();
  for (const char* number : {"0x1e", "010", "+5", " 5", "5 ", "1e1", "5.0", "-5", "", "0b11"}) {
    for (const std::vector<std::string>& option :
         {std::vector<std::string>{"group", "update", "bert-768", "--weight"},
          {"group", "update", "bert-768", "--share"},
          {"tenant", "add", "a", "--model", "/m", "--quota-rps"},
          {"stats", "--watch", "--count"},
          {"trace", "a", "--requests"},
          {"infer", "a", "--ids"}}) {
      std::vector<std::string> words = option;
      words.emplace_back(number);
      const Ran refused = run(words);
      EXPECT_EQ(refused.exit_code, 2) << option.back() << " '" << number << "'";
      EXPECT_TRUE(has(refused.err, "'" + std::string(number) + "' must be a whole number"))
          << refused.err;
    }
  }
  EXPECT_TRUE(appliance_->calls.empty());
  good({"group", "update", "bert-768", "--share", "30", "--weight", "10"});
  good({"group", "update", "bert-768", "--share", "30%"});
}

TEST_F(ItifctlTest, EmptyValuesAreNoDefaults) {
  start();
  good({"tenant", "add", "a", "--model", "/m"});
  const size_t before = appliance_->calls.size();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"handover", "--binary", ""},
        {"handover", "--config", ""},
        {"tenant", "update", "a", "--model", ""},
        {"tenant", "show", ""},
        {"tenant", "update", "a", "--name", ""}}) {
    const Ran refused = run(words);
    EXPECT_EQ(refused.exit_code, 2) << words[1];
    EXPECT_TRUE(has(refused.err, "must not be empty")) << refused.err;
  }
  EXPECT_EQ(appliance_->calls.size(), before);
}

TEST_F(ItifctlTest, RelativeModelPathsAreMadeAbsolute) {
  start();
  good({"tenant", "add", "a", "--model", "./models/../m"});
  EXPECT_TRUE(appliance_->record(1).model_dir.starts_with("/"));
  EXPECT_TRUE(appliance_->record(1).model_dir.ends_with("/m")) << appliance_->record(1).model_dir;
}

TEST_F(ItifctlTest, NamesTheBaseOfAnAdapter) {
  start();
  good({"tenant", "add", "base", "--model", "/m"});
  good({"tenant", "add", "a", "--model", "/adapter", "--base", "./models/../other"});
  EXPECT_TRUE(appliance_->record(2).base_dir.starts_with("/"));
  EXPECT_TRUE(appliance_->record(2).base_dir.ends_with("/other"));
  good({"tenant", "add", "b", "--model", "/adapter", "--base", "base"});
  EXPECT_EQ(appliance_->record(3).base_dir, "/m");
  EXPECT_TRUE(has(good({"tenant", "show", "b"}), "base        /m"));
  EXPECT_FALSE(has(good({"tenant", "show", "base"}), "base        /"));
  const std::string of_adapter = good({"tenant", "versions", "b"});
  EXPECT_TRUE(has(of_adapter, "MODEL     BASE\n")) << of_adapter;
  EXPECT_TRUE(has(of_adapter, "/adapter  /m\n")) << of_adapter;
  EXPECT_FALSE(has(good({"tenant", "versions", "base"}), "BASE"));
}

TEST_F(ItifctlTest, SpeaksJsonToPrograms) {
  start();
  const json added = json::parse(good({"--json", "tenant", "add", "a", "--model", "/m"}));
  EXPECT_EQ(added["key"].get<std::string>().size(), 32u);
  EXPECT_EQ(json::parse(good({"tenant", "list", "--json"})), ok("tenant.list"));
  EXPECT_EQ(json::parse(good({"--json", "tenant", "show", "a"})),
            ok("tenant.show", {{"tenant", "a"}}));
  EXPECT_EQ(json::parse(good({"--json", "health"})), ok("health"));
  for (const auto& [command, op] : std::map<std::string, std::string>{
           {"stats", "stats"}, {"drops", "drops"}, {"device", "device"}})
    EXPECT_EQ(json::parse(good({"--json", command})), ok(op));
  EXPECT_EQ(json::parse(good({"--json", "group", "list"})), ok("group.list"));
  const Ran refused = run({"--json", "tenant", "show", "ghost"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(json::parse(refused.out)["error"]["code"], "not_found");
  EXPECT_EQ(refused.err, "");
}

TEST_F(ItifctlTest, ShowsFiguresToPeople) {
  start();
  add_sentiment();
  EXPECT_TRUE(has(good({"group", "list"}), "bert 12x768, 12 heads"));
  const std::string stats = good({"stats"});
  EXPECT_TRUE(has(stats, "REQUESTS/S")) << stats;
  EXPECT_TRUE(has(stats, "total")) << stats;
  const std::string drops = good({"drops"});
  EXPECT_TRUE(has(drops, "lost before a worker")) << drops;
  EXPECT_TRUE(has(drops, "REPEATED  DROPPED\n")) << drops;
  EXPECT_TRUE(has(drops, "      60    1,234\n")) << drops;
  EXPECT_LT(drops.find("\nbad_tag: "), drops.find("\nRepeats: not lost\n")) << drops;
  EXPECT_GT(drops.find("\nlate: "), drops.find("\nRepeats: not lost\n")) << drops;
  const std::string reasons = good({"drops", "reasons"});
  EXPECT_LT(reasons.find("\nreplayed: "), reasons.find("\nRepeats: not lost\n")) << reasons;
  EXPECT_GT(reasons.find("\nlate: "), reasons.find("\nRepeats: not lost\n")) << reasons;
  EXPECT_TRUE(has(good({"device"}), "bf16"));
  EXPECT_TRUE(has(good({"device", "reset"}), "bf16"));
  const std::string planner = good({"group", "planner", "bert-768"});
  EXPECT_TRUE(has(planner, "uses planner auto")) << planner;
  EXPECT_TRUE(has(planner, "2.250*")) << planner;
  EXPECT_TRUE(has(planner, "2.000*")) << planner;
  EXPECT_FALSE(has(planner, "3.500*")) << planner;
  EXPECT_TRUE(has(good({"group", "planner", "marian-512"}), "no batch yet"));
  const std::string knee = good({"group", "knee", "bert-768", "--measure"});
  EXPECT_TRUE(has(knee, "95.0 *")) << knee;
  EXPECT_TRUE(has(knee, "400.0 *")) << knee;
  EXPECT_FALSE(has(knee, "200.0 *")) << knee;
  EXPECT_TRUE(has(knee, "Knee of the group: 100 %")) << knee;
  EXPECT_TRUE(has(knee, "Every smaller share loses more than 10 %")) << knee;
  const std::string drawn = good({"group", "knee", "bert-768", "--plot", "--threshold", "5"});
  EXPECT_TRUE(has(drawn, "1 request of 64 tokens, requests/s\n")) << drawn;
  EXPECT_TRUE(has(drawn, "\n   50 % |" + std::string(48, '#') + " 95.0  <- knee\n")) << drawn;
  EXPECT_TRUE(has(drawn, "\n   50 % |" + std::string(25, '#') + " 200.0\n")) << drawn;
  EXPECT_TRUE(has(drawn, "loses more than 5 %")) << drawn;
  EXPECT_TRUE(has(good({"group", "knee", "bert-768", "--threshold", "60"}),
                  "Knee of the group: 50 %. A larger share brings at most 60 %"));
  const std::string profile = good({"profile", "show", "bert-768"});
  EXPECT_TRUE(has(profile, "A GEMM of 2304 x 768")) << profile;
  EXPECT_TRUE(has(profile, "4.100 / 3.900*")) << profile;
  EXPECT_TRUE(has(profile, "4.200* / 4.500")) << profile;
  EXPECT_TRUE(has(profile, "A: GEMMs of a pass")) << profile;
  EXPECT_FALSE(has(profile, "on streams")) << profile;
  EXPECT_FALSE(has(profile, "one by one")) << profile;
  const std::string of_steps = good({"profile", "show", "marian-512"});
  EXPECT_TRUE(has(of_steps, "2.000 / 1.000*")) << of_steps;
  EXPECT_FALSE(has(of_steps, "A: ")) << of_steps;
  const std::string on_gpu = good({"profile", "show", "bert-on-gpu"});
  EXPECT_TRUE(has(on_gpu, "sequential / concurrent / on streams / by pointers")) << on_gpu;
  EXPECT_TRUE(has(on_gpu, "1.500 / 1.100 / 1.000* / 1.400")) << on_gpu;
  EXPECT_TRUE(has(on_gpu, "1.600 / 1.200 / 1.300 / 0.900*")) << on_gpu;
  EXPECT_TRUE(has(on_gpu, "with unequal rows, ms, sequential / grouped / on streams")) << on_gpu;
  EXPECT_TRUE(has(on_gpu, "1.800 / 1.700* / 1.900")) << on_gpu;
  EXPECT_TRUE(has(on_gpu, "one by one takes at least 0.310 ms")) << on_gpu;
  EXPECT_TRUE(has(good({"health"}), "1 serving, 0 paused"));
  const std::string watched = good({"stats", "--watch", "--interval", "1ms", "--count", "3"});
  size_t tables = 0;
  for (size_t at = 0; (at = watched.find("REQUESTS/S", at)) != watched.npos; ++at) ++tables;
  EXPECT_EQ(tables, 3u);
}

TEST_F(ItifctlTest, FollowsEvents) {
  start();
  auto followed = std::async(std::launch::async, [this] {
    return Client::connect({.endpoint = options_.endpoint}, system_clock_) ? 0 : 1;
  });
  followed.get();
  // Events sent before the subscription arrives are lost, so send until one is received.
  std::atomic<bool> done{false};
  std::thread publisher([&] {
    while (!done) {
      server_->publish_event("test.tick", {{"n", 1}});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const std::string events = good({"events", "--count", "2"});
  done = true;
  publisher.join();
  EXPECT_TRUE(has(events, "test.tick n=1")) << events;
  EXPECT_EQ(std::ranges::count(events, '\n'), 2);
}

TEST_F(ItifctlTest, ExitCodesSayWhatWentWrong) {
  expect_failure({"health"}, 3, "start itifd");
  expect_failure({"--endpoint", "nonsense", "health"}, 2, "ipc://");
  expect_failure({"--endpoint", "tcp://127.0.0.1:1", "health"}, 2, "keygen");
  start();
  expect_failure({"tenant", "show", "ghost"}, 1, "there is no tenant named 'ghost'");
  expect_failure({"tenant", "add", "1bad", "--model", "/m"}, 1, "'name' must be a letter");
  expect_failure({}, 2, "subcommand is required");
  expect_failure({"frob"}, 2, "'frob' is not a command");
  expect_failure({"tenant", "add", "a"}, 2, "--model");
  expect_failure({"tenant", "add", "a", "--model", "/m", "--slo", "25"}, 2, "--slo");
  expect_failure({"tenant", "add", "a", "--model", "/m", "--weight", "0"}, 2, "--weight");
  expect_failure({"tenant", "add", "a", "--model", "/m", "--auth", "all"}, 2, "--auth");
  expect_failure({"tenant", "add", "a", "--model", "/m", "--frob"}, 2, "--frob");
  expect_failure({"--timeout", "soon", "health"}, 2, "--timeout");
  expect_failure({"config", "check", dir_ / "absent.conf"}, 5, "absent.conf");
  expect_failure({"--client-key-file", dir_ / "absent.key", "health"}, 5, "absent.key");
  EXPECT_EQ(run({"--help"}).exit_code, 0);
  EXPECT_EQ(run({"tenant", "add", "--help"}).exit_code, 0);

  appliance_->close_gate();
  auto slow = std::async(std::launch::async, [this] { add("slow"); });
  appliance_->wait_until_inside();
  const Ran late = run({"--timeout", "2s", "tenant", "pause", "ghost"});
  EXPECT_EQ(late.exit_code, 4);
  EXPECT_TRUE(has(late.err, "waiting for tenant.add\n")) << late.err;
  EXPECT_TRUE(has(late.err, "did not answer")) << late.err;
  appliance_->open_gate();
  slow.get();
}

TEST_F(ItifctlTest, UnhealthyHasAnExitCode) {
  start();
  add("bad");
  appliance_->refused_models = {"/models/bad"};
  restart();
  const Ran health = run({"health"});
  EXPECT_EQ(health.exit_code, 1);
  EXPECT_TRUE(has(health.out, "status")) << health.out;
  EXPECT_TRUE(has(health.out, "bad: /models/bad")) << health.out;
  EXPECT_TRUE(has(good({"tenant", "list"}), "misshapen"));
}

TEST_F(ItifctlTest, HandsOver) {
  start();
  EXPECT_TRUE(has(good({"handover", "--binary", "new", "--within", "5s"}), "process 4711"));
  EXPECT_EQ(handover_.asked.binary, std::filesystem::absolute("new"))
      << "itifd's folder is another";
  EXPECT_EQ(handover_.asked.timeout_ns, 5'000'000'000u);
}

TEST_F(ItifctlTest, Drains) {
  start();
  EXPECT_TRUE(has(good({"drain", "--within", "2s"}), "drained"));
  EXPECT_EQ(appliance_->calls.back(), "drain 2000000000");
  EXPECT_EQ(run({"health"}).exit_code, 1);
  good({"undrain"});
  appliance_->in_flight_after_drain = 3;
  EXPECT_EQ(run({"drain"}).exit_code, 4);
}

TEST_F(ItifctlTest, MakesKeysForTcp) {
  const std::string made = good({"keygen", dir_ / "admin.key", "--name", "alice"});
  const auto pair = read_key_pair(dir_ / "admin.key");
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_TRUE(has(made, to_hex(std::as_bytes(std::span(pair->public_key)))));
  EXPECT_TRUE(has(text_of(dir_ / "admin.key.pub"), " alice\n"));
  expect_failure({"keygen", dir_ / "admin.key"}, 5, "exists");
}

TEST_F(ItifctlTest, CompletesCommandsOptionsAndTenantNames) {
  const auto complete = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--"});
    return good(words);
  };
  EXPECT_EQ(complete({"ten"}), "tenant\n");
  EXPECT_TRUE(has(complete({""}), "undrain\n"));
  EXPECT_FALSE(has(complete({""}), "__complete"));
  EXPECT_EQ(complete({"tenant", "re"}), "remove\nresume\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--auth", ""}), "full\nheader\nnone\nsealed\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--model", ""}), ":dirs\n");
  EXPECT_EQ(complete({"config", "check", ""}), ":files\n");
  EXPECT_EQ(complete({"handover", "--binary", ""}), ":files\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--quo"}), "--quota-rps\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--js"}), "--json\n");
  EXPECT_EQ(complete({"completion", ""}), "bash\nzsh\n");
  EXPECT_EQ(complete({"registry", ""}), "accept\n");
  EXPECT_EQ(complete({"tenant", "show", ""}), "");  // no server: no names and no error
  start();
  add("alpha");
  add("beta");
  EXPECT_EQ(complete({"tenant", "show", ""}), "alpha\nbeta\n");
  EXPECT_EQ(complete({"infer", "b"}), "beta\n");
  EXPECT_EQ(complete({"--json", "tenant", "pause", "al"}), "alpha\n");
  EXPECT_EQ(complete({"tenant", "show", "alpha", ""}), "");
  EXPECT_TRUE(has(good({"completion", "bash"}), "complete -F _itifctl itifctl"));
  EXPECT_TRUE(has(good({"completion", "zsh"}), "compdef _itifctl itifctl"));
}

TEST_F(ItifctlTest, EveryCommandHasHelpWithAnExample) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{},
                                             {"tenant", "add"},
                                             {"tenant", "list"},
                                             {"tenant", "show"},
                                             {"tenant", "update"},
                                             {"tenant", "pause"},
                                             {"tenant", "resume"},
                                             {"tenant", "rotate-key"},
                                             {"tenant", "remove"},
                                             {"tenant", "stages"},
                                             {"bottleneck"},
                                             {"trace"},
                                             {"group", "list"},
                                             {"stats"},
                                             {"drops"},
                                             {"device"},
                                             {"health"},
                                             {"events"},
                                             {"drain"},
                                             {"undrain"},
                                             {"handover"},
                                             {"infer"},
                                             {"keygen"},
                                             {"config", "check"},
                                             {"registry", "accept"},
                                             {"completion"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    EXPECT_TRUE(has(good(arguments), "Example")) << (command.empty() ? "" : command.back());
  }
}

TEST_F(ItifctlTest, TerminalControlInServerTextIsEscaped) {
  start();
  appliance_->refused_models = {"/models/\x1b[2J"};
  const Ran ran = run({"tenant", "add", "a", "--model", "/models/\x1b[2J"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_FALSE(has(ran.err, "\x1b")) << ran.err;
}

}  // namespace
}  // namespace itif::control
