// Fills the structs by the schema.
#include "config/check.h"
#include "config/config.h"
#include "config/read_file.h"
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
  Config config;
  ITIF_TRY(read_file(path, "conf/itifd.conf", [&config](Report& report, Reader& root) {
    read_section<Eal>(report, root, "eal", config.eal, visit_eal);
    read_ports(report, root, config.ports);
    read_section<DataPlane>(report, root, "data_plane", config.data_plane, visit_data_plane);
    read_section<Device>(report, root, "device", config.device, visit_device);
    read_section<Batching>(report, root, "batching", config.batching, visit_batching);
    read_section<Control>(report, root, "control", config.control, visit_control);
    read_section<Telemetry>(report, root, "telemetry", config.telemetry, visit_telemetry);
    read_section<Process>(report, root, "process", config.process, visit_process);
    root.duration("drain_timeout", config.drain_timeout_ns, 0, 3600 * kSecond);
  }));
  ITIF_TRY(check(config, path));
  return config;
}

}  // namespace itif::config
