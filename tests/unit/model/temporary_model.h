// A model directory that a test fills and that goes when the test does.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace itif::model {

// A file under tests/data.
inline std::string data_path(const std::string& name) {
  return ITIF_TEST_DATA "/" + name;
}

class TemporaryModel {
 public:
  TemporaryModel() {
    std::string pattern = testing::TempDir() + "itif-model-XXXXXX";
    if (!::mkdtemp(pattern.data())) ADD_FAILURE() << pattern << " cannot be made";
    path_ = pattern;
  }
  ~TemporaryModel() { std::filesystem::remove_all(path_); }
  TemporaryModel(const TemporaryModel&) = delete;
  TemporaryModel& operator=(const TemporaryModel&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }
  // A file under tests/data, as `name`.
  void copy(const std::string& from, const std::string& name) const {
    std::filesystem::copy_file(data_path(from), path_ + "/" + name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  void remove(const std::string& name) const { std::filesystem::remove(path_ + "/" + name); }

 private:
  std::string path_;
};

}  // namespace itif::model
