// itifd's configuration file.
//
//   input = the file
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "config/config.h"

// libconfig does not free the text that it was reading at a syntax error.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libconfig++\n";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("@include") != std::string_view::npos) return 0;  // reads any file
  const int file = memfd_create("itifd.conf", MFD_CLOEXEC);
  CHECK(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
  const auto config = itif::config::load("/proc/self/fd/" + std::to_string(file));
  close(file);
  if (!config) {
    CHECK(!config.error().message.empty());
    return 0;
  }
  CHECK(!config->ports.empty() || config->data_plane.max_contexts > 0);
  for (const auto& port : config->ports) CHECK(port.num_queues > 0 && port.udp_port > 0);
  CHECK(config->batching.max_requests > 0 && config->data_plane.max_contexts > 0);
  return 0;
}
