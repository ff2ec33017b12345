#include "net/eal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace itif::net {
namespace {

namespace fs = std::filesystem;

// Fakes /proc and /sys.
class HugepagesTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/itif-hugepages-XXXXXX";
    root_ = mkdtemp(pattern);
    fs::create_directories(root_ + "/proc");
    fs::create_directories(root_ + "/dev/hugepages");
    mounts("tmpfs /tmp tmpfs rw 0 0\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void mounts(const std::string& text) { std::ofstream(root_ + "/proc/mounts") << text; }
  void pages(const std::string& size, int free) {
    const std::string folder = root_ + "/sys/kernel/mm/hugepages/hugepages-" + size;
    fs::create_directories(folder);
    std::ofstream(folder + "/free_hugepages") << free << "\n";
  }
  static std::string joined(const EalPlan& plan) {
    std::string text;
    for (const std::string& arg : plan.args) text += arg + " ";
    return text;
  }
  std::string root_;
};

TEST_F(HugepagesTest, MissingFilesMeanNoHugepages) {
  const Hugepages found = inspect_hugepages(root_ + "/nowhere");
  EXPECT_EQ(found.free_bytes, 0u);
  EXPECT_FALSE(found.mounted);
}

TEST_F(HugepagesTest, CountsEverySizeAndFindsTheMount) {
  pages("2048kB", 100);
  pages("1048576kB", 1);
  mounts("tmpfs /tmp tmpfs rw 0 0\nnodev /dev/hugepages hugetlbfs rw,relatime 0 0\n");
  const Hugepages found = inspect_hugepages(root_);
  EXPECT_EQ(found.free_bytes >> 20, 200u + 1024);
  EXPECT_TRUE(found.mounted);
  EXPECT_TRUE(found.writable);
  EXPECT_EQ(found.mount_point, "/dev/hugepages");
}

TEST_F(HugepagesTest, UnwritableMountIsNotUsed) {
  pages("2048kB", 100);
  mounts("nodev /dev/absent hugetlbfs rw 0 0\n");
  const Hugepages found = inspect_hugepages(root_);
  EXPECT_TRUE(found.mounted);
  EXPECT_FALSE(found.writable);
  const EalPlan plan = plan_eal({}, found, 64);
  EXPECT_TRUE(plan.no_huge);
  EXPECT_NE(plan.warning.find("/dev/absent is not writable"), std::string::npos);
}

const Hugepages kGood{1024u << 20, true, true, "/dev/hugepages"};

TEST_F(HugepagesTest, PlansKeepTheArgumentsWhenPagesAreThere) {
  const EalPlan plan = plan_eal({"-l", "0"}, kGood, 128);
  EXPECT_FALSE(plan.no_huge);
  EXPECT_EQ(joined(plan), "-l 0 ");
  EXPECT_EQ(plan.warning, "");
}

TEST_F(HugepagesTest, PlansFallBackWithOneLine) {
  const EalPlan few = plan_eal({"-l", "0"}, {64u << 20, true, true, "/dev/hugepages"}, 128);
  EXPECT_TRUE(few.no_huge);
  EXPECT_EQ(joined(few), "-l 0 --no-huge -m 128 ");
  EXPECT_NE(few.warning.find("64 MB of hugepages are free, 128 MB are needed"), std::string::npos);
  EXPECT_EQ(few.warning.find('\n'), std::string::npos);
  const EalPlan unmounted = plan_eal({}, {1024u << 20, false, false, ""}, 128);
  EXPECT_TRUE(unmounted.no_huge);
  EXPECT_NE(unmounted.warning.find("mount -t hugetlbfs"), std::string::npos);
}

TEST_F(HugepagesTest, PlansRespectExplicitArguments) {
  const EalPlan asked = plan_eal({"--no-huge", "-m", "512"}, kGood, 128);
  EXPECT_EQ(joined(asked), "--no-huge -m 512 ");
  EXPECT_EQ(asked.warning, "");
  EXPECT_EQ(joined(plan_eal({"--no-huge"}, kGood, 128)), "--no-huge -m 128 ");
  EXPECT_EQ(joined(plan_eal({"-m64"}, {}, 128)), "-m64 --no-huge ");
  // Anonymous hugepages need no mount.
  EXPECT_FALSE(plan_eal({"--in-memory"}, {1024u << 20, false, false, ""}, 128).no_huge);
}

TEST(KeepsCapturesOut, NamesTheArgument) {
  const auto forbids = [](const char* argument) {
    return keeps_captures_out({"-l", "0", argument}).find(argument) != std::string::npos;
  };
  for (const char* argument : {"--no-huge", "--in-memory", "--no-shconf"})
    EXPECT_TRUE(forbids(argument)) << argument;
  EXPECT_NE(keeps_captures_out({"--huge-unlink"}), "");
  EXPECT_NE(keeps_captures_out({"--huge-unlink=always"}), "");
  for (const char* argument :
       {"--huge-unlink=never", "--huge-unlink=existing", "--no-telemetry", "--legacy-mem",
        "--single-file-segments", "--match-allocations", "--file-prefix=--no-huge"})
    EXPECT_EQ(keeps_captures_out({argument}), "") << argument;
}

// Runs start_eal() in a child process, because EAL starts once per process. Standard error must
// hold only our message, printed as <message>.
void expect_refusal(std::vector<std::string> args, Code code, const std::string& words) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  args.insert(args.begin(), {"--no-huge", "-m", "32", "--no-pci", "--no-telemetry", "--no-shconf"});
  EXPECT_EXIT(
      {
        const Status status = start_eal(args);
        if (status) exit(99);
        fprintf(stderr, "<%s>", status.error().message.c_str());
        exit(status.error().message.find('\n') == std::string::npos
                 ? static_cast<int>(status.error().code)
                 : 98);
      },
      testing::ExitedWithCode(static_cast<int>(code)), "^<[^\n]*" + words + "[^\n]*>$");
}

TEST(StartEalDeathTest, RefusesUnknownArguments) {
  expect_refusal({"--no-such-option"}, Code::kInvalidArgument, "'--no-such-option'.*eal.args");
  expect_refusal({"--vdev"}, Code::kInvalidArgument, "'--vdev' requires an argument");
  expect_refusal({"-l", "0", "stray"}, Code::kInvalidArgument, "'stray'");
  expect_refusal({"--help"}, Code::kInvalidArgument, "'--help'");
}

TEST(StartEalDeathTest, RefusesUnknownCores) {
  expect_refusal({"-l", "4000"}, Code::kInvalidArgument, "check -l");
}

TEST(StartEalDeathTest, RefusesUnknownDevices) {
  expect_refusal({"-l", "0", "--vdev=net_nonsense0"}, Code::kNotFound, "net_nonsense0");
}

TEST(StartEalDeathTest, ReportsDevicesThatFailToStart) {
  expect_refusal({"-l", "0", "--vdev=net_memif0,role=queen"}, Code::kNotFound,
                 "net_memif0: .*Unknown role: queen:.*check its arguments");
  expect_refusal({"-l", "0", "--vdev=net_null0", "--vdev=net_pcap0,rx_pcap=/nonexistent.pcap"},
                 Code::kNotFound, "net_pcap0: .*/nonexistent.pcap");
}

TEST(StartEalDeathTest, RefusesConflictingOptions) {
  expect_refusal({"--huge-unlink"}, Code::kInvalidArgument,
                 "cannot be specified together.*leave one");
}

}  // namespace
}  // namespace itif::net
