#include "doctor/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/cpu_list.h"
#include "pipeline/lcores.h"

namespace itif::ctl::doctor {
namespace {

// The devices that eal.args create or allow, with their arguments.
std::vector<std::string> devices_of(const std::vector<std::string>& args) {
  std::vector<std::string> devices;
  for (size_t i = 0; i < args.size(); ++i)
    for (const std::string_view option : {"--vdev", "--allow", "-a"}) {
      const std::string& arg = args[i];
      if (arg == option && i + 1 < args.size()) devices.push_back(args[i + 1]);
      if (option.starts_with("--") && arg.starts_with(std::string(option) + "="))
        devices.push_back(arg.substr(option.size() + 1));
      if (option == "-a" && arg.starts_with("-a") && arg.size() > 2)
        devices.push_back(arg.substr(2));
    }
  return devices;
}

// The numbers of "3", "2-5" or "(2,4-6)".
Result<std::vector<unsigned>> numbers_of(std::string_view text) {
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  return parse_cpus(text);
}

Result<std::vector<Lcore>> parse_mask(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::vector<Lcore> lcores;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned digit = 0;
    const char* at = text.data() + text.size() - 1 - i;
    if (std::from_chars(at, at + 1, digit, 16).ptr != at + 1)
      return fail(Code::kInvalidArgument, fmt::format("'{}' is no mask of cores", text));
    for (unsigned bit = 0; bit < 4; ++bit)
      if ((digit >> bit & 1) != 0)
        lcores.push_back(
            {static_cast<unsigned>(4 * i + bit), {static_cast<unsigned>(4 * i + bit)}});
  }
  return lcores;
}

}  // namespace

std::string argument_of(std::string_view device, std::string_view key) {
  for (size_t at = device.find(','); at != device.npos;) {
    const size_t end = device.find(',', at + 1);
    const std::string_view word = device.substr(at + 1, end == device.npos ? end : end - at - 1);
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return std::string(word.substr(key.size() + 1));
    at = end;
  }
  return {};
}

bool is_pci_address(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot != name.npos && std::ranges::count(name, ':') >= 1 &&
         name.find_first_not_of("0123456789abcdefABCDEF:.") == name.npos;
}

std::string full_address(const std::string& address) {
  return std::ranges::count(address, ':') == 1 ? "0000:" + address : address;
}

Result<std::vector<Lcore>> parse_lcores(std::string_view text) {
  std::vector<Lcore> lcores;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end)
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    const std::string_view part = text.substr(at, end - at);
    const size_t to = part.find('@');
    ITIF_ASSIGN(const std::vector<unsigned> ids, numbers_of(part.substr(0, to)));
    std::vector<unsigned> cpus;
    if (to != part.npos) {
      ITIF_ASSIGN(cpus, numbers_of(part.substr(to + 1)));
    }
    for (const unsigned id : ids)
      lcores.push_back({id, to == part.npos ? std::vector<unsigned>{id} : cpus});
    at = end + 1;
  }
  return lcores;
}

std::string cpus_text(const std::vector<unsigned>& cpus) {
  std::vector<unsigned> sorted = cpus;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return format_cpus(sorted);
}

const char* Machine::eal_option(std::string_view name) const {
  const std::vector<std::string>& args = config.eal.args;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (!arg.starts_with(name)) continue;
    if (arg.size() == name.size())
      return i + 1 < args.size() && !args[i + 1].starts_with('-') ? args[i + 1].c_str() : "";
    if (name.starts_with("--") ? arg[name.size()] == '=' : name.size() == 2)
      return arg.c_str() + name.size() + (name.starts_with("--") ? 1 : 0);
  }
  return nullptr;
}

std::vector<std::string> Machine::devices() const {
  return devices_of(config.eal.args);
}

std::vector<PortUse> Machine::ports() const {
  const std::vector<std::string> devices = this->devices();
  std::vector<PortUse> uses;
  for (size_t i = 0; i < config.ports.size(); ++i) {
    PortUse& use = uses.emplace_back();
    use.port = &config.ports[i];
    use.device = use.port->device;
    // Without a name, the first device is the port.
    if (use.device.empty() && !devices.empty()) use.arguments = devices.front();
    for (const std::string& device : devices)
      if (!use.device.empty() && device.substr(0, device.find(',')) == use.device)
        use.arguments = device;
    if (use.device.empty()) use.device = use.arguments.substr(0, use.arguments.find(','));
    if (is_pci_address(use.device)) {
      use.kind = PortUse::Kind::kPci;
      use.device = full_address(use.device);
      continue;
    }
    use.driver = use.device.substr(0, use.device.find_last_not_of("0123456789") + 1);
    use.interface = argument_of(use.arguments, "iface");
    if (use.driver != "net_tap" && !use.interface.empty()) use.kind = PortUse::Kind::kInterface;
  }
  return uses;
}

CpuUse Machine::cpus() const {
  CpuUse use;
  use.is_busy = config.data_plane.polling == "busy";
  const auto plan = pipeline::plan_cpus(config, cpu_list("/sys/devices/system/cpu/online"));
  if (!plan) {
    use.error = plan.error().message;
    return use;
  }
  use.executors = plan->executor_cpus;
  const Machine planned{.files = files,
                        .config_file = {},
                        .config =
                            [&] {
                              config::Config with = config;
                              with.eal.args = plan->eal_args;
                              return with;
                            }(),
                        .health = {}};
  const char* list = planned.eal_option("--lcores");
  if (list == nullptr) list = planned.eal_option("-l");
  const char* mask = planned.eal_option("-c");
  auto lcores = list != nullptr   ? parse_lcores(list)
                : mask != nullptr ? parse_mask(mask)
                                  : Result<std::vector<Lcore>>(std::vector<Lcore>{});
  if (!lcores) {
    use.error = "eal.args: " + lcores.error().message;
    return use;
  }
  size_t num_workers = 0;
  for (const config::Port& port : config.ports) num_workers += port.workers();
  std::vector<unsigned> ids = config.data_plane.worker_lcores;
  if (ids.empty() && !lcores->empty()) {
    // The first is the main lcore, unless an option names another one.
    unsigned main = lcores->front().id;
    if (const char* named = planned.eal_option("--main-lcore"))
      main = static_cast<unsigned>(std::atoi(named));
    for (const Lcore& lcore : *lcores)
      if (lcore.id != main && ids.size() < num_workers) ids.push_back(lcore.id);
  }
  for (const unsigned id : ids) {
    const auto found = std::ranges::find(*lcores, id, &Lcore::id);
    if (found == lcores->end()) {
      use.error = fmt::format("data_plane.worker_lcores: eal.args have no lcore {}", id);
      return use;
    }
    if (found->cpus.size() == 1) use.workers.push_back(found->cpus.front());
  }
  return use;
}

uint64_t Machine::capabilities() const {
  for (const std::string& line : files.lines("/proc/self/status")) {
    if (!line.starts_with("CapEff:")) continue;
    const size_t at = line.find_first_not_of(" \t", 7);
    uint64_t mask = 0;
    if (at != line.npos) std::from_chars(line.data() + at, line.data() + line.size(), mask, 16);
    return mask;
  }
  return 0;
}

std::vector<unsigned> Machine::cpu_list(const std::string& path) const {
  const auto text = files.text(path);
  if (!text || text->empty() || *text == "(null)") return {};
  return parse_cpus(*text).value_or(std::vector<unsigned>{});
}

std::vector<unsigned> Machine::nodes() const {
  std::vector<unsigned> found;
  for (const std::string& name : files.list("/sys/devices/system/node")) {
    unsigned number = 0;
    if (!name.starts_with("node")) continue;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) found.push_back(number);
  }
  std::ranges::sort(found);
  return found;
}

int Machine::node_of_cpu(unsigned cpu) const {
  for (const unsigned node : nodes()) {
    const std::vector<unsigned> cpus =
        cpu_list(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    if (std::ranges::find(cpus, cpu) != cpus.end()) return static_cast<int>(node);
  }
  return -1;
}

int Machine::node_of_device(const std::string& address) const {
  if (nodes().size() < 2) return -1;
  return static_cast<int>(
      files.number(fmt::format("/sys/bus/pci/devices/{}/numa_node", address)).value_or(-1));
}

}  // namespace itif::ctl::doctor
