// Reads the file with libconfig++ and fills the structs by the schema. Catches libconfig's
// exceptions.
#include <libconfig.h++>

#include "config/check.h"
#include "config/config.h"
#include "config/reader.h"
#include "config/schema.h"

namespace itif::config {
namespace {

template <class Section>
void read_section(Report& report, Reader& root, const char* key, Section& section,
                  void (*visit)(Reader&, Section&)) {
  const Setting* group = root.group(key);
  if (!group) return;
  Reader reader(report, *group, key);
  visit(reader, section);
  reader.refuse_unknown();
}

void read_ports(Report& report, Reader& root, std::vector<Port>& ports) {
  const Setting* list = root.list("ports");
  if (!list) return;
  for (int i = 0; i < list->getLength(); ++i) {
    const Setting& element = (*list)[i];
    const std::string name = fmt::format("ports[{}]", i);
    if (!element.isGroup()) {
      report.add(element, name,
                 fmt::format("expected a group {{ }}, found {}", type_text(element)));
      return;
    }
    Reader reader(report, element, name);
    visit_port(reader, ports.emplace_back());
    reader.refuse_unknown();
  }
}

}  // namespace

Result<Config> load(const std::string& path) {
  libconfig::Config file;
  try {
    file.readFile(path.c_str());
  } catch (const libconfig::FileIOException&) {
    return fail(
        Code::kNotFound,
        fmt::format("{}: cannot be read: check that the file exists and may be read by this "
                    "user (conf/itifd.conf is an example)",
                    path));
  } catch (const libconfig::ParseException& error) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: {}", error.getFile() ? error.getFile() : path.c_str(),
                            error.getLine(), error.getError()));
  }
  Config config;
  Report report{path, {}};
  Reader root(report, file.getRoot(), "");
  read_section<Eal>(report, root, "eal", config.eal, visit_eal);
  read_ports(report, root, config.ports);
  read_section<DataPlane>(report, root, "data_plane", config.data_plane, visit_data_plane);
  read_section<Device>(report, root, "device", config.device, visit_device);
  read_section<Batching>(report, root, "batching", config.batching, visit_batching);
  read_section<Control>(report, root, "control", config.control, visit_control);
  read_section<Telemetry>(report, root, "telemetry", config.telemetry, visit_telemetry);
  root.duration("drain_timeout", config.drain_timeout_ns, 0, 3600 * kSecond);
  root.refuse_unknown();
  if (report.error) return std::unexpected(std::move(*report.error));
  ITIF_TRY(check(config, path));
  return config;
}

}  // namespace itif::config
