// Durability: changes acknowledged before kill -9, or before the disk was full, are there after
// reopening. Children are forked before this process starts any thread.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "base/random.h"
#include "control/registry.h"
#include "temp_dir.h"

namespace itif::control {
namespace {

// The child's report of a change, sent when the change begins and again once it is acknowledged.
struct Word {
  bool acknowledged = false;
  bool removed = false;
  uint32_t id = 0;
  uint32_t weight = 0;
};

class Reporter {
 public:
  explicit Reporter(int pipe_fd) : pipe_fd_(pipe_fd) {}
  void begin(Word word) {
    word_ = word;
    word_.acknowledged = false;
    send();
  }
  void acknowledge() {
    word_.acknowledged = true;
    send();
  }

 private:
  void send() {
    if (::write(pipe_fd_, &word_, sizeof word_) != sizeof word_) ::_exit(7);
  }
  int pipe_fd_;
  Word word_{};
};

// Adds, updates and removes tenants until it is killed.
[[noreturn]] void write_until_killed(const std::string& state, int pipe_fd, uint64_t seed) {
  auto registry = Registry::open(state);
  if (!registry) ::_exit(2);
  Reporter reporter(pipe_fd);
  Random random(seed);
  std::vector<tenant::Record> mine;
  for (;;) {
    const uint64_t dice = random.below(10);
    if (mine.empty() || dice < 5) {
      tenant::Record r;
      const auto id = (*registry)->allocate_id();
      if (!id) ::_exit(3);
      r.id = *id;
      r.name = "t" + std::to_string(r.id);
      r.model_dir = "/models/m";
      r.key.epoch = 1;
      r.weight = 1 + static_cast<uint32_t>(random.below(1000));
      reporter.begin({.id = r.id, .weight = r.weight});
      if (!(*registry)->insert(r)) ::_exit(4);
      mine.push_back(r);
    } else if (dice < 8) {
      tenant::Record& r = mine[random.below(mine.size())];
      r.weight = 1 + static_cast<uint32_t>(random.below(1000));
      reporter.begin({.id = r.id, .weight = r.weight});
      if (!(*registry)->update(r)) ::_exit(5);
    } else {
      const size_t at = random.below(mine.size());
      reporter.begin({.removed = true, .id = mine[at].id});
      if (!(*registry)->remove(mine[at].id)) ::_exit(6);
      mine.erase(mine.begin() + static_cast<ptrdiff_t>(at));
    }
    reporter.acknowledge();
  }
}

// Weight by tenant id, as the registry holds it or must hold it.
using Contents = std::map<uint32_t, uint32_t>;

void take(const Word& word, Contents& contents) {
  if (word.removed)
    contents.erase(word.id);
  else
    contents[word.id] = word.weight;
}

TEST(RegistryCrash, KillAtAnyMomentLosesNoAcknowledgedChange) {
  TempDir dir;
  const std::string state = dir / "state";
  Contents expected;
  Random random(20261121);
  size_t num_acknowledged = 0;
  uint32_t last_id = 0;
  for (int round = 0; round < 25; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(state, ends[1], 1000 + static_cast<uint64_t>(round));
    ::close(ends[1]);
    // Kills the child a random time after a random number of changes, so that a change is in
    // progress on machines of any speed.
    uint64_t changes_left = random.below(12);
    const auto kill_soon = [&, after_us = random.below(3000)] {
      std::this_thread::sleep_for(std::chrono::microseconds(after_us));
      ::kill(child, SIGKILL);
    };
    if (changes_left == 0) kill_soon();
    Word word{}, last{.acknowledged = true};
    while (::read(ends[0], &word, sizeof word) == static_cast<ssize_t>(sizeof word)) {
      last = word;
      last_id = std::max(last_id, word.id);
      if (!word.acknowledged) continue;
      take(word, expected);
      ++num_acknowledged;
      if (changes_left > 0 && --changes_left == 0) kill_soon();
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended with " << WEXITSTATUS(status);

    auto registry = Registry::open(state);
    ASSERT_TRUE(registry) << registry.error().message;
    const auto records = (*registry)->load();
    ASSERT_TRUE(records) << records.error().message;
    Contents found;
    for (const tenant::Record& r : *records) found[r.id] = r.weight;
    // The unacknowledged change may be there or not. All others must match.
    if (!last.acknowledged && found != expected) take(last, expected);
    EXPECT_EQ(found, expected) << "round " << round;
    const auto fresh = (*registry)->allocate_id();
    ASSERT_TRUE(fresh);
    EXPECT_GT(*fresh, last_id);
  }
  EXPECT_GT(num_acknowledged, 50u) << "the children were killed too early to test anything";
}

// Enters a new mount namespace, as root or through a user namespace.
bool enter_mount_namespace() {
  if (::geteuid() == 0) {
    if (::unshare(CLONE_NEWNS) != 0) return false;
  } else {
    const std::string map = "0 " + std::to_string(::geteuid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << map;
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Runs in a child, on a new file system that is small enough to fill. Exit status: 0 success, 77
// mount namespaces are not allowed.
int fill_a_small_disk(const std::string& mount_point) {
  if (!enter_mount_namespace()) return 77;
  if (::mount("itif-test", mount_point.c_str(), "tmpfs", 0, "size=256k,mode=0700") != 0) return 77;
  uint32_t acknowledged = 0;
  {
    auto registry = Registry::open(mount_point);
    if (!registry) return 10;
    for (uint32_t id = 1;; ++id) {
      tenant::Record r;
      r.id = id;
      r.name = "t" + std::to_string(id);
      r.model_dir = "/" + std::string(2000, 'm');
      r.key.epoch = 1;
      if (const Status inserted = (*registry)->insert(r); !inserted) {
        if (inserted.error().code != Code::kResourceExhausted) return 11;
        if (inserted.error().message.find("disk is full") == std::string::npos) return 12;
        break;
      }
      acknowledged = id;
      if (id > 1000) return 13;
    }
    if (acknowledged == 0) return 14;
    // It still answers and has lost no record.
    const auto records = (*registry)->load();
    if (!records || records->size() != acknowledged) return 15;
  }
  auto registry = Registry::open(mount_point);
  if (!registry) return 16;
  const auto records = (*registry)->load();
  return records && records->size() == acknowledged ? 0 : 17;
}

TEST(RegistryCrash, FullDiskGivesAnErrorAndLosesNoRecord) {
  TempDir dir;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(fill_a_small_disk(dir.path()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mount namespaces are not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace itif::control
