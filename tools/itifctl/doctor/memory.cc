// Memory: hugepages, the hugetlbfs, the limit of locked memory, transparent hugepages.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "config/needed_memory.h"
#include "doctor/checks.h"

namespace itif::ctl::doctor {
namespace {

constexpr unsigned kCapIpcLock = 14;  // linux/capability.h

struct Pages {
  uint64_t page_kb = 0;
  int node = -1;  // -1: of the whole machine
  uint64_t all = 0, free = 0;
  uint64_t free_mb() const { return free * page_kb >> 10; }
  uint64_t all_mb() const { return all * page_kb >> 10; }
  std::string path() const {
    return node < 0 ? fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB", page_kb)
                    : fmt::format("/sys/devices/system/node/node{}/hugepages/hugepages-{}kB", node,
                                  page_kb);
  }
};

void read_pages(const Machine& machine, const std::string& folder, int node,
                std::vector<Pages>& all) {
  constexpr std::string_view kPrefix = "hugepages-";
  for (const std::string& name : machine.files.list(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    Pages pages{.node = node};
    const char* from = name.data() + kPrefix.size();
    if (std::from_chars(from, name.data() + name.size(), pages.page_kb).ec != std::errc()) continue;
    const auto count = [&](const char* file) {
      return static_cast<uint64_t>(
          std::max<int64_t>(0, machine.files.number(folder + "/" + name + "/" + file).value_or(0)));
    };
    pages.all = count("nr_hugepages");
    pages.free = count("free_hugepages");
    all.push_back(pages);
  }
}

// Returns those of each node, or of the machine if the kernel has no nodes.
std::vector<Pages> pages_of(const Machine& machine) {
  std::vector<Pages> all;
  for (const unsigned node : machine.nodes())
    read_pages(machine, fmt::format("/sys/devices/system/node/node{}/hugepages", node),
               static_cast<int>(node), all);
  if (all.empty()) read_pages(machine, "/sys/kernel/mm/hugepages", -1, all);
  return all;
}

std::string pages_text(const std::vector<Pages>& all) {
  std::string text;
  for (const Pages& pages : all) {
    if (pages.all == 0) continue;
    text += fmt::format("{}{}{} of {} pages of {} free", text.empty() ? "" : "; ",
                        pages.node < 0 ? "" : fmt::format("node {}: ", pages.node), pages.free,
                        pages.all,
                        pages.page_kb >= 1024 * 1024 ? fmt::format("{} GiB", pages.page_kb >> 20)
                                                     : fmt::format("{} MiB", pages.page_kb >> 10));
  }
  return text.empty() ? "none are reserved" : text;
}

// The smallest pages of the port's node, and how many more of them are needed.
std::string reserve_command(const Machine& machine, const std::vector<Pages>& all,
                            uint64_t needed_mb, int node) {
  const Pages* chosen = nullptr;
  for (const Pages& pages : all)
    if ((node < 0 || pages.node == node) && (chosen == nullptr || pages.page_kb < chosen->page_kb))
      chosen = &pages;
  const uint64_t page_kb = chosen == nullptr ? 2048 : chosen->page_kb;
  const uint64_t used = chosen == nullptr ? 0 : chosen->all - std::min(chosen->all, chosen->free);
  const uint64_t count = used + (needed_mb * 1024 + page_kb - 1) / page_kb + 8;
  const std::string path = chosen == nullptr ? std::string("/proc/sys/vm/nr_hugepages")
                                             : chosen->path() + "/nr_hugepages";
  (void)machine;
  return fmt::format("echo {} > {}   # vm.nr_hugepages in /etc/sysctl.d keeps it", count, path);
}

int port_node(const Machine& machine) {
  for (const PortUse& use : machine.ports())
    if (use.kind == PortUse::Kind::kPci)
      if (const int node = machine.node_of_device(use.device); node >= 0) return node;
  return -1;
}

bool uses_nic(const Machine& machine) {
  return std::ranges::any_of(machine.ports(),
                             [](const PortUse& use) { return use.kind == PortUse::Kind::kPci; });
}

void check_hugepages(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "hugepages";
  const std::vector<Pages> all = pages_of(machine);
  const std::string found = pages_text(all);
  if (machine.eal_option("--no-huge") != nullptr)
    return checks.push_back(not_applicable(kName, "eal.args have --no-huge; " + found));
  if (machine.is_running())
    return checks.push_back(ok(kName, "itifd runs and has taken its memory; " + found));
  const uint64_t needed_mb = config::needed_memory_mb(machine.config);
  const int node = port_node(machine);
  uint64_t free_mb = 0;
  for (const Pages& pages : all)
    if (node < 0 || pages.node == node) free_mb += pages.free_mb();
  const std::string evidence =
      fmt::format("{}; {} MiB needed{}, {} MiB free", found, needed_mb,
                  node < 0 ? "" : fmt::format(" on node {}, the NIC's", node), free_mb);
  if (free_mb >= needed_mb) return checks.push_back(ok(kName, evidence));
  const std::string remedy = reserve_command(machine, all, needed_mb, node);
  // Without a NIC itifd starts in ordinary pages.
  checks.push_back(uses_nic(machine)
                       ? fail(kName, evidence, remedy)
                       : warn(kName, evidence + ": itifd starts, but is slower", remedy));
}

void check_hugetlbfs(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "hugetlbfs";
  for (const char* option : {"--no-huge", "--in-memory"})
    if (machine.eal_option(option) != nullptr)
      return checks.push_back(
          not_applicable(kName, fmt::format("eal.args have {}: no files are needed", option)));
  std::string closed;
  for (const std::string& line : machine.files.lines("/proc/mounts")) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    fields >> device >> point >> type >> options;
    if (type != "hugetlbfs") continue;
    if (machine.is_running() || machine.files.may(point, W_OK | X_OK))
      return checks.push_back(ok(kName, fmt::format("{} ({})", point, options)));
    closed = point;
  }
  if (closed.empty())
    return checks.push_back((uses_nic(machine) ? fail : warn)(
        kName, "none is mounted", "mount -t hugetlbfs nodev /dev/hugepages"));
  checks.push_back((uses_nic(machine) ? fail : warn)(
      kName, fmt::format("user {} may not create files in {}", ::geteuid(), closed),
      fmt::format("mount -t hugetlbfs -o uid={},mode=0700 nodev {}", ::geteuid(), closed)));
}

// NICs, AF_XDP and GPUs lock memory.
void check_locked_memory(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "locked memory";
  const std::vector<PortUse> ports = machine.ports();
  const bool is_needed = uses_nic(machine) || std::ranges::any_of(ports, [](const PortUse& use) {
                           return use.driver == "net_af_xdp";
                         });
  if (!is_needed && machine.config.device.kind == "host")
    return checks.push_back(not_applicable(kName, "no port and no GPU locks memory"));
  if (machine.has_capability(kCapIpcLock))
    return checks.push_back(ok(kName, "no limit for this user (ipc_lock)"));
  for (const std::string& line : machine.files.lines("/proc/self/limits")) {
    if (!line.starts_with("Max locked memory")) continue;
    std::istringstream fields(line.substr(std::string_view("Max locked memory").size()));
    std::string soft;
    fields >> soft;
    if (soft == "unlimited") return checks.push_back(ok(kName, "no limit (ulimit -l)"));
    return checks.push_back((is_needed ? fail : warn)(
        kName, fmt::format("this user may lock {} bytes", soft),
        "ulimit -l unlimited   # LimitMEMLOCK=infinity in a systemd unit"));
  }
  checks.push_back(not_applicable(kName, "/proc/self/limits does not say"));
}

// Weights and workspaces in ordinary memory ask for huge pages with madvise(2).
void check_transparent(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "transparent hugepages";
  constexpr const char* kFile = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string found = machine.files.text_or(kFile, "");
  if (machine.config.device.kind == "cuda")
    return checks.push_back(not_applicable(kName, "the GPU holds the weights"));
  if (found.empty()) return checks.push_back(not_applicable(kName, "the kernel has none"));
  if (found.find("[never]") == found.npos) return checks.push_back(ok(kName, found));
  checks.push_back(warn(kName, found + ": weights lie in pages of 4 KiB, which is slower",
                        fmt::format("echo madvise > {}", kFile)));
}

}  // namespace

void check_memory(const Machine& machine, Checks& checks) {
  check_hugepages(machine, checks);
  check_hugetlbfs(machine, checks);
  check_locked_memory(machine, checks);
  check_transparent(machine, checks);
}

}  // namespace itif::ctl::doctor
