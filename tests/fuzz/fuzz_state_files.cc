// Small files of control's state directory and of its administrators.
//
//   input = u8: the mark of the registry, a key pair or the list of authorised keys; then the file
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"
#include "control/curve.h"
#include "control/registry_mark.h"

namespace {

namespace fs = std::filesystem;

// A directory for the files, in memory if there is a file system for that.
const std::string& directory() {
  static const struct Made {
    Made() {
      const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
      name = (parent / "itif-fuzz-XXXXXX").string();
      CHECK(mkdtemp(name.data()) != nullptr);
    }
    ~Made() {
      std::error_code ignored;
      fs::remove_all(name, ignored);
    }
    std::string name;
  } made;
  return made.name;
}

void write_file(const std::string& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  CHECK(chmod(path.c_str(), 0600) == 0);
}

template <class Read>
void check_error(const Read& read) {
  CHECK(read.has_value() || !read.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::control;
  if (size < 1) return 0;
  const std::string path = directory() + (data[0] % 3 == 0 ? "/registry.mark" : "/keys");
  write_file(path, data + 1, size - 1);
  switch (data[0] % 3) {
    case 0: {
      const auto mark = read_mark(directory());
      check_error(mark);
      if (!mark) break;
      CHECK(mark->has_value());
      CHECK(write_mark(directory(), **mark).has_value());
      CHECK(**read_mark(directory()) == **mark);
      break;
    }
    case 1: check_error(read_key_pair(path)); break;
    case 2: check_error(read_authorized_keys(path)); break;
  }
  return 0;
}
