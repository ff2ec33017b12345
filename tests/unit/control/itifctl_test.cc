// The itifctl program itself, against a server in this process: tables, JSON, exit codes, keys,
// completion, and `infer` against a responder on a UDP socket.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "control/hex.h"
#include "key_store.h"
#include "server_fixture.h"
#include "wire/datagram.h"

namespace itif::control {
namespace {

using nlohmann::json;

struct Ran {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Answers whole requests in one datagram: a class list for text, if the tag is right.
class Responder {
 public:
  explicit Responder(wire::Key key)
      : key_(key), fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Responder() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
  }

  uint16_t port = 0;
  std::atomic<wire::StatusCode> refuse_with{wire::StatusCode::kOk};
  std::atomic<uint16_t> seen_epoch{0};
  std::string seen_text() {
    const std::lock_guard lock(mutex_);
    return seen_text_;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd item{fd_, POLLIN, 0};
      if (::poll(&item, 1, 20) <= 0) continue;
      std::byte bytes[2048];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got =
          ::recvfrom(fd_, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
      wire::Datagram request;
      if (got <= 0 ||
          wire::parse({bytes, static_cast<size_t>(got)}, request) != wire::ParseError::kNone ||
          request.header.type != wire::Type::kRequest || !wire::verify_tag(key_, request))
        continue;
      seen_epoch = request.header.key_epoch;
      {
        const std::lock_guard lock(mutex_);
        seen_text_.assign(reinterpret_cast<const char*>(request.payload.data()),
                          request.payload.size());
      }
      std::byte reply[2048];
      const size_t reply_bytes = answer(request.header, reply);
      ::sendto(fd_, reply, reply_bytes, 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
  size_t answer(const wire::Header& request, std::span<std::byte> out) {
    wire::Header header;
    header.tenant_id = request.tenant_id;
    header.session = request.session;
    header.request_id = request.request_id;
    header.auth = request.auth;
    header.key_epoch = request.key_epoch;
    if (refuse_with != wire::StatusCode::kOk) {
      header.type = wire::Type::kStatus;
      header.status = refuse_with;
      return wire::build(header, {}, key_, out);
    }
    // {index 1, 0.9, "POSITIVE"}, {index 0, 0.1, "NEGATIVE"}
    std::vector<std::byte> payload;
    const auto put = [&](const void* data, size_t size) {
      const auto* bytes = static_cast<const std::byte*>(data);
      payload.insert(payload.end(), bytes, bytes + size);
    };
    for (const uint32_t index : {1u, 0u}) {
      const float probability = index == 1 ? 0.9f : 0.1f;
      const uint32_t name_bytes = 8;
      put(&index, 4);
      put(&probability, 4);
      put(&name_bytes, 4);
      put(index == 1 ? "POSITIVE" : "NEGATIVE", 8);
    }
    header.type = wire::Type::kResponse;
    header.result_kind = wire::ResultKind::kClasses;
    header.total_bytes = static_cast<uint32_t>(payload.size());
    header.fragment_bytes = wire::kDefaultFragmentBytes;
    header.budget_us = 1234;
    header.aux = 2;
    return wire::build(header, payload, key_, out);
  }

  const wire::Key key_;
  const int fd_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string seen_text_;
  std::thread thread_;
};

class ItifctlTest : public ServerFixture {
 protected:
  Ran run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "itifctl");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<std::string> environment = {"XDG_CONFIG_HOME=" + (dir_ / "config"), "TZ=UTC",
                                            "ITIF_ENDPOINT=" + options_.endpoint,
                                            "ASAN_OPTIONS=detect_leaks=0"};
    for (const std::string& variable : environment_) environment.push_back(variable);
    std::vector<char*> envp;
    for (std::string& variable : environment) envp.push_back(variable.data());
    envp.push_back(nullptr);

    const std::string out = dir_ / "out", err = dir_ / "err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input_.empty() ? "/dev/null" : input_.c_str(),
                                     O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    Ran ran;
    EXPECT_EQ(::posix_spawn(&child, ITIFCTL, &actions, nullptr, argv.data(), envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    ran.exit_code = WEXITSTATUS(status);
    ran.out = text_of(out);
    ran.err = text_of(err);
    return ran;
  }
  std::string good(const std::vector<std::string>& arguments) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err << ran.out;
    return ran.out;
  }
  // Exit code, one line on standard error that says `part`, nothing on standard output.
  void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                      const std::string& part) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
    if (exit_code != 2) {
      EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    }
  }
  void add_sentiment() {
    good({"tenant", "add", "sentiment", "--model", "/models/s", "--slo", "25ms"});
  }

  std::vector<std::string> environment_;
  std::string input_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ItifctlTest, AdministersATenant) {
  start();
  const Ran added = run({"tenant", "add", "sentiment", "--model", "/models/s", "--slo", "25ms",
                         "--weight", "2", "--quota-rps", "500", "--auth", "full", "--group", "g"});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  const TenantRecord record = appliance_->record(1);
  EXPECT_EQ(record.slo_ns, 25'000'000u);
  EXPECT_EQ(record.weight, 2u);
  EXPECT_EQ(record.quota_rps, 500u);
  EXPECT_EQ(record.auth, 2);
  EXPECT_EQ(record.group, "g");
  EXPECT_TRUE(has(added.out, to_hex(record.key.bytes))) << added.out;
  EXPECT_TRUE(has(added.err, "packing 100%\n")) << added.err;  // progress, in lines

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

TEST_F(ItifctlTest, RelativeModelPathsAreMadeAbsolute) {
  start();
  good({"tenant", "add", "a", "--model", "./models/../m"});
  EXPECT_TRUE(appliance_->record(1).model_dir.starts_with("/"));
  EXPECT_TRUE(appliance_->record(1).model_dir.ends_with("/m")) << appliance_->record(1).model_dir;
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
  EXPECT_TRUE(has(good({"drops"}), "lost before a worker"));
  EXPECT_TRUE(has(good({"device"}), "bf16"));
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
  // Events that are sent before the subscription has arrived are missed: send until it has.
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
  expect_failure({"--timeout", "100ms", "tenant", "pause", "ghost"}, 4, "did not answer");
  appliance_->open_gate();
  slow.get();
}

TEST_F(ItifctlTest, UnhealthyIsAnExitCode) {
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

TEST_F(ItifctlTest, Drains) {
  start();
  EXPECT_TRUE(has(good({"drain", "--within", "2s"}), "drained"));
  EXPECT_EQ(appliance_->calls.back(), "drain 2000000000");
  EXPECT_EQ(run({"health"}).exit_code, 1);
  good({"undrain"});
  appliance_->in_flight_after_drain = 3;
  EXPECT_EQ(run({"drain"}).exit_code, 4);
}

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
  // A key that cannot be kept has still been shown: no failure, but a word of it.
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
  EXPECT_TRUE(has(table, "answered in ")) << table;
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

TEST_F(ItifctlTest, InferTakesTheKeyFromWhereItIs) {
  start();
  const std::string key = add("a")["key"];  // not through itifctl: no key is kept
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
  expect_failure({"infer", "a", "x", "--address", address, "--timeout", "300ms"}, 4, "");
  expect_failure({"infer", "a", "x", "--address", "h:0"}, 2, "HOST:PORT");
}

TEST_F(ItifctlTest, ATenantOfAnotherTimeIsNotConfused) {
  start();
  add_sentiment();
  server_.reset();
  options_.state_dir = dir_ / "fresh";  // the registry was thrown away: ids start anew
  clock_.advance_ns(1);
  appliance_ = std::make_unique<FakeAppliance>();
  start();
  add("other");
  expect_failure({"infer", "other", "x"}, 5, "has no key");
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
  EXPECT_EQ(complete({"tenant", "add", "x", "--auth", ""}), "full\nheader\nnone\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--model", ""}), ":dirs\n");
  EXPECT_EQ(complete({"config", "check", ""}), ":files\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--quo"}), "--quota-rps\n");
  EXPECT_EQ(complete({"tenant", "add", "x", "--js"}), "--json\n");
  EXPECT_EQ(complete({"completion", ""}), "bash\nzsh\n");
  EXPECT_EQ(complete({"tenant", "show", ""}), "");  // no server: nothing, and no noise
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
                                             {"group", "list"},
                                             {"stats"},
                                             {"drops"},
                                             {"device"},
                                             {"health"},
                                             {"events"},
                                             {"drain"},
                                             {"undrain"},
                                             {"infer"},
                                             {"keygen"},
                                             {"config", "check"},
                                             {"completion"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    EXPECT_TRUE(has(good(arguments), "Example")) << (command.empty() ? "" : command.back());
  }
}

TEST_F(ItifctlTest, TerminalControlInServerTextIsDefused) {
  start();
  appliance_->refused_models = {"/models/\x1b[2J"};
  const Ran ran = run({"tenant", "add", "a", "--model", "/models/\x1b[2J"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_FALSE(has(ran.err, "\x1b")) << ran.err;
}

}  // namespace
}  // namespace itif::control
