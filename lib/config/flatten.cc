#include "config/flatten.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/schema.h"

namespace itif::config {
namespace {

struct Flattener {
  std::vector<std::pair<std::string, std::string>>* out;
  std::string section;

  void add(const char* key, std::string value) {
    out->emplace_back(section.empty() ? key : section + "." + key, std::move(value));
  }
  void boolean(const char* key, bool value) { add(key, value ? "true" : "false"); }
  void integer(const char* key, uint64_t value, uint64_t, uint64_t) {
    add(key, std::to_string(value));
  }
  void duration(const char* key, uint64_t ns, uint64_t, uint64_t) { add(key, std::to_string(ns)); }
  void size(const char* key, uint64_t bytes, uint64_t, uint64_t) {
    add(key, std::to_string(bytes));
  }
  void text(const char* key, const std::string& value) { add(key, value); }
  void choice(const char* key, const std::string& value, const std::vector<std::string_view>&) {
    add(key, value);
  }
  template <class Parse>
  void checked(const char* key, const std::string& value, Parse) {
    add(key, value);
  }
  void texts(const char* key, const std::vector<std::string>& values) {
    add(key, fmt::format("[{}]", fmt::join(values, ", ")));
  }
  void integers(const char* key, const std::vector<unsigned>& values, unsigned) {
    add(key, fmt::format("[{}]", fmt::join(values, ", ")));
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> flatten(const Config& config) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto section = [&out](std::string name) { return Flattener{&out, std::move(name)}; };
  Flattener v = section("eal");
  visit_eal(v, config.eal);
  for (size_t i = 0; i < config.ports.size(); ++i) {
    v = section(fmt::format("ports[{}]", i));
    visit_port(v, config.ports[i]);
  }
  v = section("data_plane");
  visit_data_plane(v, config.data_plane);
  v = section("device");
  visit_device(v, config.device);
  v = section("batching");
  visit_batching(v, config.batching);
  v = section("control");
  visit_control(v, config.control);
  v = section("telemetry");
  visit_telemetry(v, config.telemetry);
  v = section("process");
  visit_process(v, config.process);
  v = section("");
  v.duration("drain_timeout", config.drain_timeout_ns, 0, 0);
  return out;
}

}  // namespace itif::config
