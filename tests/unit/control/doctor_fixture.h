// A tree of files of a server with a NIC on which all is well; tests of `itifctl doctor` make one
// fault each.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "config/config.h"
#include "doctor/report.h"
#include "temp_dir.h"

namespace itif::ctl::doctor {

namespace fs = std::filesystem;

inline constexpr const char* kNic = R"(
eal = { args = [ "--lcores=0,2-5", "-a", "0000:3b:00.0" ]; };
ports = ( { device = "0000:3b:00.0"; ipv4 = [ "192.0.2.10/24" ]; num_queues = 4; } );
data_plane = { polling = "busy"; worker_lcores = [ 2, 3, 4, 5 ]; };
device = { cpus = [ 6, 7 ]; };
control = { state_dir = "/var/lib/itif"; };
)";
inline constexpr const char* kVeth = R"(
eal = { args = [ "--vdev=net_af_packet0,iface=eth1,framecnt=16384" ]; };
ports = ( { device = "net_af_packet0"; ipv4 = [ "198.18.0.1/24" ]; } );
)";
inline constexpr const char* kPci = "/sys/bus/pci/devices/0000:3b:00.0";

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    put("/proc/self/status", "Name:\titifctl\nCapEff:\t000001ffffffffff\n");
    put("/proc/self/limits",
        "Max locked memory         unlimited            unlimited      bytes\n");
    put("/proc/mounts", "nodev /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n");
    fs::create_directories(root_ + "/dev/hugepages");
    put("/proc/cpuinfo",
        "processor : 0\nflags\t\t: avx2 avx512f avx512_bf16 amx_tile amx_bf16 constant_tsc "
        "nonstop_tsc\n");
    put("/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno log allow");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    put("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm");
    put("/sys/devices/system/cpu/online", "0-7");
    put("/sys/devices/system/cpu/isolated", "2-5");
    put("/sys/devices/system/cpu/nohz_full", "2-5");
    for (int cpu = 0; cpu < 8; ++cpu)
      put(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu),
          "performance");
    for (int node = 0; node < 2; ++node) {
      const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
      put(folder + "/cpulist", node == 0 ? "0-5" : "6-7");
      put(folder + "/hugepages/hugepages-2048kB/nr_hugepages", "512");
      put(folder + "/hugepages/hugepages-2048kB/free_hugepages", "512");
    }
    put(std::string(kPci) + "/vendor", "0x8086");
    put(std::string(kPci) + "/numa_node", "0");
    link(std::string(kPci) + "/driver", "../../drivers/vfio-pci");
    link(std::string(kPci) + "/iommu_group", "../../../kernel/iommu_groups/42");
    put("/sys/class/iommu/dmar0/name", "dmar0");
    put("/dev/vfio/42", "");
    put("/sys/class/net/eth1/mtu", "1500");
    put("/sys/class/net/eth1/flags", "0x1003");
    put("/sys/class/net/eth1/operstate", "up");
  }

  void put(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void link(const std::string& path, const std::string& target) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    fs::remove(file);
    fs::create_symlink(target, file);
  }
  void remove(const std::string& path) { fs::remove_all(root_ + path); }

  Machine machine(const std::string& config) {
    std::ofstream(dir_ / "itifd.conf") << config;
    auto loaded = config::load(dir_ / "itifd.conf");
    EXPECT_TRUE(loaded) << loaded.error().message;
    return {.files = Files(root_),
            .config_file = dir_ / "itifd.conf",
            .config = loaded ? *loaded : config::Config{},
            .health = health_};
  }
  Check check_of(const std::string& config, const std::string& name) {
    const Checks checks = run_checks(machine(config));
    const auto found = std::ranges::find(checks, name, &Check::name);
    EXPECT_NE(found, checks.end()) << name;
    return found == checks.end() ? Check{} : *found;
  }
  void expect(const std::string& config, const std::string& name, Verdict verdict,
              const std::string& evidence, const std::string& remedy = {}) {
    const Check check = check_of(config, name);
    EXPECT_EQ(verdict_name(check.verdict), verdict_name(verdict)) << name << ": " << check.evidence;
    EXPECT_NE(check.evidence.find(evidence), std::string::npos) << name << ": " << check.evidence;
    EXPECT_NE(check.remedy.find(remedy), std::string::npos) << name << ": " << check.remedy;
    const bool needs_remedy = verdict == Verdict::kWarn || verdict == Verdict::kFail;
    EXPECT_EQ(!check.remedy.empty(), needs_remedy) << name << ": " << check.remedy;
  }

  control::TempDir dir_;
  const std::string root_ = dir_ / "root";
  nlohmann::json health_;
};

}  // namespace itif::ctl::doctor
