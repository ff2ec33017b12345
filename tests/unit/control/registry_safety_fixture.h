// A registry in a temporary directory, and what can happen to its files.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "control/database.h"
#include "control/registry.h"
#include "control/registry_mark.h"
#include "registry_records.h"
#include "temp_dir.h"

namespace itif::control {

namespace fs = std::filesystem;

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  ::chmod(path.c_str(), 0600);
}

class RegistrySafety : public ::testing::Test {
 protected:
  std::unique_ptr<Registry> open() {
    auto registry = Registry::open(state_);
    EXPECT_TRUE(registry) << registry.error().message;
    return registry ? std::move(*registry) : nullptr;
  }
  void expect_refused(const std::string& says, Code code = Code::kCorrupt) {
    const auto registry = Registry::open(state_);
    ASSERT_FALSE(registry);
    EXPECT_EQ(registry.error().code, code) << registry.error().message;
    EXPECT_NE(registry.error().message.find(says), std::string::npos) << registry.error().message;
    EXPECT_EQ(registry.error().message.find('\n'), std::string::npos);
  }
  void sql(const std::string& statement) {
    auto database = Database::open(db_);
    ASSERT_TRUE(database) << database.error().message;
    const auto done = database->run(statement);
    ASSERT_TRUE(done) << statement << ": " << done.error().message;
  }
  // Registers tenants with the ids 1, 2, … and removes the last one.
  void fill(uint32_t count) {
    auto registry = open();
    for (uint32_t i = 1; i <= count; ++i) {
      const auto id = registry->allocate_id();
      ASSERT_TRUE(id) << id.error().message;
      ASSERT_TRUE(registry->insert(record_of(*id, "tenant" + std::to_string(*id))));
    }
    ASSERT_TRUE(registry->remove(count));
    ASSERT_TRUE(registry->put_group("bert-768", {"naive", "edf", 30}));
  }
  void accept() {
    const Status accepted = accept_registry(state_);
    ASSERT_TRUE(accepted) << accepted.error().message;
  }

  TempDir dir_;
  std::string state_ = dir_ / "state";
  std::string db_ = state_ + "/registry.db";
};

}  // namespace itif::control
