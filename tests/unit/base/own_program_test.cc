#include "base/own_program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace itif {
namespace {

class OwnProgramTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("ITIF_PROGRAM"); }
  void TearDown() override { unsetenv("ITIF_PROGRAM"); }
};

TEST_F(OwnProgramTest, IsTheRunningExecutable) {
  EXPECT_EQ(own_program(), std::filesystem::read_symlink("/proc/self/exe").string());
  setenv("ITIF_PROGRAM", "", 1);
  EXPECT_EQ(own_program(), std::filesystem::read_symlink("/proc/self/exe").string());
}

TEST_F(OwnProgramTest, IsTheLaunchersProgramIfSet) {
  setenv("ITIF_PROGRAM", "/opt/itif/bin/itifd", 1);
  EXPECT_EQ(own_program(), "/opt/itif/bin/itifd");
}

}  // namespace
}  // namespace itif
