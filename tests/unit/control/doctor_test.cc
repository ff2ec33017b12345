// `itifctl doctor`: memory, CPUs and rights, on trees of files.
#include <sys/wait.h>
#include <unistd.h>

#include "doctor_fixture.h"

namespace itif::ctl::doctor {
namespace {

TEST_F(DoctorTest, FindsNothingWrongOnAServerThatIsSetUp) {
  for (const char* config : {kNic, kVeth}) {
    const Machine good = machine(config);
    const Checks checks = run_checks(good);
    EXPECT_EQ(count_of(checks, Verdict::kFail), 0u) << report_text(good, checks);
    EXPECT_EQ(count_of(checks, Verdict::kWarn), 0u) << report_text(good, checks);
    EXPECT_GT(count_of(checks, Verdict::kOk), 8u) << report_text(good, checks);
  }
}

TEST_F(DoctorTest, SaysThatItsChecksDoNotApply) {
  using enum Verdict;
  expect(kVeth, "IOMMU of net_af_packet0", kNotApplicable, "no NIC");
  expect(kVeth, "isolcpus", kNotApplicable, "workers sleep");
  expect(kNic, "offloads of 0000:3b:00.0", kNotApplicable, "only an itifd that runs");
  remove("/sys/devices/system/cpu/cpu0/cpufreq");
  for (int cpu = 1; cpu < 8; ++cpu)
    remove(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq", cpu));
  expect(kVeth, "governor", kNotApplicable, "virtual machine");
  const std::string no_huge =
      "eal = { args = [ \"--no-huge\", \"--vdev=net_null0\" ]; };\n"
      "ports = ( { device = \"net_null0\"; ipv4 = [ \"198.18.0.1/24\" ]; } );\n";
  expect(no_huge, "hugepages", kNotApplicable, "--no-huge");
  expect(no_huge, "hugetlbfs", kNotApplicable, "--no-huge");
  expect(no_huge, "capabilities", kNotApplicable, "none");
}

TEST_F(DoctorTest, HugepagesMustBeFreeOnTheNicsNode) {
  using enum Verdict;
  put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "10");
  expect(kNic, "hugepages", kFail, "on node 0",
         "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages");
  // 502 pages are in use, and 204 MiB are needed.
  expect(kNic, "hugepages", kFail, "204 MiB needed", "echo 612 >");
  expect(kVeth, "hugepages", kOk, "node 1: 512 of 512 pages of 2 MiB free");
  put("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "0");
  expect(kVeth, "hugepages", kWarn, "itifd starts, but is slower", "nr_hugepages");
  // Without nodes in the kernel.
  remove("/sys/devices/system/node");
  put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1");
  put("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1");
  expect(kNic, "hugepages", kOk, "1 of 1 pages of 1 GiB free");
  remove("/sys/kernel/mm/hugepages");
  expect(kNic, "hugepages", kFail, "none are reserved", "> /proc/sys/vm/nr_hugepages");
}

TEST_F(DoctorTest, AHugetlbfsMustBeMountedAndWritable) {
  using enum Verdict;
  put("/proc/mounts", "proc /proc proc rw 0 0\n");
  expect(kNic, "hugetlbfs", kFail, "none is mounted", "mount -t hugetlbfs nodev /dev/hugepages");
  expect(kVeth, "hugetlbfs", kWarn, "none is mounted", "mount -t hugetlbfs");
  put("/proc/mounts", "nodev /mnt/missing hugetlbfs rw 0 0\n");
  expect(kNic, "hugetlbfs", kFail, "may not create files in /mnt/missing", "-o uid=");
}

TEST_F(DoctorTest, BusyWorkersNeedCpusOfTheirOwn) {
  using enum Verdict;
  expect(kNic, "CPUs", kOk, "workers on 2-5; executors on 6-7");
  put("/sys/devices/system/cpu/isolated", "2-3");
  put("/sys/devices/system/cpu/nohz_full", "(null)");
  expect(kNic, "isolcpus", kWarn, "2-3; workers poll on 2-5", "isolcpus=2-5");
  expect(kNic, "nohz_full", kWarn, "none; workers poll on 2-5", "nohz_full=2-5");
  put("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6");
  expect(kNic, "CPUs", kWarn, "CPUs 2 and 6 are threads of one core", "leave CPU 6");
  put("/sys/devices/system/cpu/online", "0-3");
  expect(kNic, "CPUs", kFail, "has CPUs 0-3, but not 4-7", "--lcores");
  put("/sys/devices/system/cpu/online", "0-7");
  std::string shared = kNic;
  shared.replace(shared.find("cpus = [ 6, 7 ]"), 15, "cpus = [ 5, 6 ]");
  expect(shared, "CPUs", kWarn, "share 5", "device.cpus");
  std::string wrong = kNic;
  wrong.replace(wrong.find("--lcores=0,2-5"), 14, "--lcores=0,2-4");
  expect(wrong, "CPUs", kFail, "no lcore 5", "eal.args");
}

TEST_F(DoctorTest, TheGovernorMustNotSlowDown) {
  put("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
  expect(kNic, "governor", Verdict::kWarn, "on CPUs 3", "cpupower frequency-set -g performance");
}

TEST_F(DoctorTest, TheClockMustBeFastAndSteady) {
  using enum Verdict;
  const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
  put(folder + "current_clocksource", "hpet");
  expect(kNic, "clock", kWarn, "hpet: each reading is a system call", "echo tsc >");
  put(folder + "available_clocksource", "hpet acpi_pm");
  expect(kNic, "clock", kWarn, "hpet", "tsc=reliable");
  put(folder + "current_clocksource", "kvm-clock");
  expect(kNic, "clock", kOk, "kvm-clock");
  put("/proc/cpuinfo", "flags : avx2 constant_tsc\n");
  expect(kNic, "clock", kWarn, "lacks nonstop_tsc", "invtsc");
}

TEST_F(DoctorTest, NamesTheInstructionsForBf16) {
  using enum Verdict;
  expect(kNic, "instructions", kOk, "AMX bf16");
  put("/proc/cpuinfo", "flags : avx2 avx512f constant_tsc nonstop_tsc\n");
  expect(kNic, "instructions", kWarn, "AVX-512, without bf16", "lscpu");
  const std::string bf16 =
      std::string(kVeth) + "device = { kind = \"host\"; dtype = \"bf16\"; };\n";
  expect(bf16, "instructions", kFail, "needs AMX or AVX512-BF16", "device.dtype = \"auto\"");
  const std::string gpu = std::string(kVeth) + "device = { kind = \"cuda\"; };\n";
  expect(gpu, "instructions", kNotApplicable, "a GPU computes");
}

TEST_F(DoctorTest, PortsOfTheKernelNeedCapabilities) {
  using enum Verdict;
  expect(kVeth, "capabilities", kOk, "net_admin, net_raw");
  put("/proc/self/status", "CapEff:\t0000000000001000\n");  // net_admin
  expect(kVeth, "capabilities", kFail, "lacks net_raw", "sudo itifctl doctor");
  put("/proc/self/status", "CapEff:\t0000000000000000\n");
  expect(kNic, "capabilities", kNotApplicable, "the ports need none");
  remove("/sys/class/iommu/dmar0");
  expect(kNic, "capabilities", kFail, "sys_admin", "sudo");
}

TEST_F(DoctorTest, LockedMemoryMustBeUnlimited) {
  using enum Verdict;
  put("/proc/self/limits", "Max locked memory         8388608              8388608        bytes\n");
  expect(kNic, "locked memory", kOk, "ipc_lock");
  put("/proc/self/status", "CapEff:\t0000000000000000\n");
  expect(kNic, "locked memory", kFail, "8388608 bytes", "LimitMEMLOCK=infinity");
  expect(kVeth, "locked memory", kWarn, "8388608 bytes", "ulimit -l unlimited");
  const std::string host = std::string(kVeth) + "device = { kind = \"host\"; };\n";
  expect(host, "locked memory", kNotApplicable, "no GPU");
}

TEST_F(DoctorTest, TransparentHugepagesMustBeAllowed) {
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  expect(kNic, "transparent hugepages", Verdict::kWarn, "[never]", "echo madvise >");
}

TEST_F(DoctorTest, TheKernelMustFilterSystemCalls) {
  using enum Verdict;
  const std::string kill = std::string(kVeth) + "process = { seccomp = \"kill\"; };\n";
  expect(kill, "seccomp", kOk, "kill_process");
  put("/proc/sys/kernel/seccomp/actions_avail", "kill_thread errno");
  expect(kill, "seccomp", kFail, "lacks the action kill_process", "\"refuse\"");
  remove("/proc/sys/kernel/seccomp/actions_avail");
  expect(kVeth, "seccomp", kFail, "no filter", "process.seccomp = \"off\"");
  expect(std::string(kVeth) + "process = { seccomp = \"off\"; };\n", "seccomp", kNotApplicable,
         "off");
}

TEST_F(DoctorTest, TheStateIsPrivate) {
  using enum Verdict;
  expect(kNic, "state directory", kOk, "itifd makes it");
  fs::create_directories(root_ + "/var/lib/itif");
  fs::permissions(root_ + "/var/lib/itif", fs::perms(0755));
  expect(kNic, "state directory", kFail, "mode 0755", "chmod 700 /var/lib/itif");
  fs::permissions(root_ + "/var/lib/itif", fs::perms(0700));
  expect(kNic, "state directory", kOk, "mode 0700");
  remove("/var/lib/itif");
  put("/var/lib/itif", "a file");
  expect(kNic, "state directory", kFail, "no directory", "mv /var/lib/itif");
}

// Root passes access(2) in /proc, where nobody can make a directory.
TEST_F(DoctorTest, AStateDirectoryThatCannotBeMadeFails) {
  using enum Verdict;
  const auto with_state = [](const std::string& path) {
    return std::string(kVeth) + "control = { state_dir = \"" + path + "\"; };\n";
  };
  put("/var/a_file", "");
  expect(with_state("/var/a_file/itif/state"), "state directory", kFail,
         "/var/a_file is no directory", "mv /var/a_file /var/a_file.old");
  const size_t before = Files(root_).list("/var").size();
  expect(with_state("/var/x/y"), "state directory", kOk, "itifd makes it");
  EXPECT_EQ(Files(root_).list("/var").size(), before);
  const Checks checks = run_checks({.files = Files(),
                                    .config_file = {},
                                    .config = machine(with_state("/proc/x")).config,
                                    .health = {}});
  const auto found = std::ranges::find(checks, "state directory", &Check::name);
  EXPECT_EQ(found->verdict, kFail) << found->evidence;
  EXPECT_NE(found->evidence.find("/proc/x cannot be made"), std::string::npos) << found->evidence;
  EXPECT_NE(found->remedy.find("control.state_dir = \"/var/lib/itif\""), std::string::npos);
}

// Runs as another user, because root may write everywhere.
TEST_F(DoctorTest, AUserWithoutRightsOnTheStateDirectoryFails) {
  using enum Verdict;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  fs::permissions(dir_ / "", fs::perms(0755));
  fs::create_directories(root_ + "/var/lib");
  const Machine whole = machine(kNic);
  fs::create_directories(root_ + "/srv/itif");
  fs::permissions(root_ + "/srv/itif", fs::perms(0700));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    Machine own = whole;
    const auto state = [&] {
      const Checks checks = run_checks(own);
      return *std::ranges::find(checks, "state directory", &Check::name);
    };
    const Check missing = state();
    own.config.control.state_dir = "/srv/itif";
    const Check foreign = state();
    const bool is_right =
        missing.verdict == kFail && foreign.verdict == kFail &&
        missing.evidence.find("user 65534 cannot make a directory in /var/lib") !=
            std::string::npos &&
        missing.remedy.starts_with("sudo install -d -m 700 -o 65534 /var/lib/itif") &&
        foreign.evidence.find("user 65534 cannot write there") != std::string::npos;
    if (!is_right) fmt::print(stderr, "{}\n{}\n", missing.evidence, foreign.evidence);
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DoctorTest, ReportsAsTextAndAsJson) {
  remove("/dev/vfio/42");
  const Machine faulty = machine(kNic);
  const Checks checks = run_checks(faulty);
  const std::string text = report_text(faulty, checks);
  EXPECT_NE(text.find("fail  IOMMU of 0000:3b:00.0"), std::string::npos) << text;
  EXPECT_NE(text.find("→ modprobe vfio-pci"), std::string::npos) << text;
  EXPECT_NE(text.find("1 failed, 0 to improve"), std::string::npos) << text;
  const nlohmann::json json = report_json(faulty, checks);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["running"], false);
  EXPECT_EQ(json["checks"].size(), checks.size());
  EXPECT_EQ(json["checks"][0]["name"], "hugepages");
  EXPECT_EQ(json["checks"][0]["verdict"], "ok");
}

// A file that is no text of the kernel's, or none at all, never ends the program.
TEST_F(DoctorTest, SurvivesStrangeFiles) {
  const std::string strange = std::string(4096, '\xff') + "\n" + std::string("0-", 2) + "\n-\n,,@(";
  for (const char* path :
       {"/proc/self/status", "/proc/self/limits", "/proc/mounts", "/proc/cpuinfo",
        "/proc/net/fib_trie", "/proc/net/if_inet6", "/sys/class/net/eth1/address",
        "/proc/sys/kernel/seccomp/actions_avail", "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated",
        "/sys/devices/system/node/node0/cpulist",
        "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages",
        "/sys/devices/system/node/nodex/cpulist", "/sys/class/net/eth1/mtu",
        "/sys/class/net/eth1/flags",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource"})
    put(path, strange);
  for (const char* config : {kNic, kVeth}) {
    const Machine odd = machine(config);
    const Checks checks = run_checks(odd);
    EXPECT_FALSE(report_text(odd, checks).empty());
    EXPECT_FALSE(report_json(odd, checks)
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                     .empty());
  }
  fs::remove_all(root_);
  EXPECT_FALSE(run_checks(machine(kNic)).empty());
}

TEST(Lcores, AreParsedAsEalDoes) {
  const auto cpus_of = [](const char* text) {
    std::string out;
    const std::vector<Lcore> lcores = parse_lcores(text).value();
    for (const Lcore& lcore : lcores) out += fmt::format("{}={} ", lcore.id, cpus_text(lcore.cpus));
    return out;
  };
  EXPECT_EQ(cpus_of("0,2-3"), "0=0 2=2 3=3 ");
  EXPECT_EQ(cpus_of("0@(0-3,5),1@7"), "0=0-3,5 1=7 ");
  EXPECT_EQ(cpus_of("(0-1)@4"), "0=4 1=4 ");
  EXPECT_EQ(cpus_of(""), "");
  for (const char* wrong : {"x", "0@", "0@(1", "1-", "0,,1", "99999"})
    EXPECT_FALSE(parse_lcores(wrong)) << wrong;
}

}  // namespace
}  // namespace itif::ctl::doctor
