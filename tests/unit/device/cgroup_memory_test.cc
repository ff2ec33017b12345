// Memory limits of control groups, read from files as Linux writes them.
#include "device/host/cgroup_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace itif::device {
namespace {

class CgroupMemory : public ::testing::Test {
 protected:
  CgroupMemory() {
    char name[] = "/tmp/itif-cgroup-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~CgroupMemory() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  size_t available() { return cgroup_available_bytes(root_ + "/self", root_); }
  std::string root_;
};

TEST_F(CgroupMemory, MissingFilesMeanNoLimit) {
  EXPECT_EQ(available(), SIZE_MAX);
  write("/self", "");
  EXPECT_EQ(available(), SIZE_MAX);
  write("/self", "0::/\n");
  write("/memory.max", "max\n");
  EXPECT_EQ(available(), SIZE_MAX);
}

// Reading models fills the page cache, which does not count as used memory.
TEST_F(CgroupMemory, ThePageCacheIsNotCounted) {
  write("/self", "0::/\n");
  write("/memory.max", "1000000\n");
  write("/memory.current", "900000\n");
  EXPECT_EQ(available(), 100000u);
  write("/memory.stat", "anon 100000\nfile 800000\ninactive_file 700000\nactive_file 100000\n");
  EXPECT_EQ(available(), 800000u);
}

TEST_F(CgroupMemory, LimitsOfAllAncestorsApply) {
  write("/self", "0::/system.slice/itifd.service\n");
  write("/system.slice/itifd.service/memory.max", "5000\n");
  write("/system.slice/itifd.service/memory.current", "1000\n");
  EXPECT_EQ(available(), 4000u);
  write("/system.slice/memory.max", "6000\n");
  write("/system.slice/memory.current", "4500\n");
  EXPECT_EQ(available(), 1500u);
  write("/system.slice/memory.current", "7000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(CgroupMemory, ReadsVersion1) {
  write("/self", "9:cpu,cpuacct:/a\n4:hugetlb,memory:/a/b\n1:name=systemd:/x\n");
  write("/memory/a/b/memory.limit_in_bytes", "9000\n");
  write("/memory/a/b/memory.usage_in_bytes", "4000\n");
  write("/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 1500\n");
  EXPECT_EQ(available(), 6500u);
}

TEST_F(CgroupMemory, AnInvisiblePathFallsBackToTheRoot) {
  write("/self", "0::/docker/abcdef\nnonsense\n0:\n::\n");
  write("/memory.max", "3000\n");
  write("/memory.current", "1000\n");
  EXPECT_EQ(available(), 2000u);
}

}  // namespace
}  // namespace itif::device
