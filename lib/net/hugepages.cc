// Finds usable hugepages, adapts EAL's arguments to them, and tells which arguments keep other
// processes out. See eal.h.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "net/eal.h"

namespace itif::net {
namespace {

bool is_option(const std::string& arg, std::string_view option) {
  return arg == option || (arg.starts_with(option) && arg[option.size()] == '=');
}

bool has_option(const std::vector<std::string>& args, std::string_view option) {
  return std::any_of(args.begin(), args.end(),
                     [&](const std::string& arg) { return is_option(arg, option); });
}

// "-m" takes its number attached or as a separate argument.
bool has_memory_option(const std::vector<std::string>& args) {
  return has_option(args, "--socket-mem") ||
         std::any_of(args.begin(), args.end(),
                     [](const std::string& arg) { return arg.starts_with("-m"); });
}

}  // namespace

Hugepages inspect_hugepages(const std::string& root) {
  namespace fs = std::filesystem;
  Hugepages found;
  std::error_code ignored;
  for (fs::directory_iterator entry(root + "/sys/kernel/mm/hugepages", ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename();  // "hugepages-2048kB"
    uint64_t page_kb = 0, free_pages = 0;
    if (sscanf(name.c_str(), "hugepages-%lukB", &page_kb) != 1) continue;
    std::ifstream(entry->path() / "free_hugepages") >> free_pages;
    found.free_bytes += page_kb * 1024 * free_pages;
  }
  std::ifstream mounts(root + "/proc/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, point, type;
    fields >> device >> point >> type;
    if (type != "hugetlbfs") continue;
    const bool writable = access((root + point).c_str(), W_OK | X_OK) == 0;
    if (found.writable && !writable) continue;
    found.mounted = true;
    found.writable = writable;
    found.mount_point = point;
  }
  return found;
}

EalPlan plan_eal(std::vector<std::string> args, const Hugepages& hugepages, uint32_t needed_mb) {
  EalPlan plan;
  plan.args = std::move(args);
  const bool in_memory = has_option(plan.args, "--in-memory");  // needs pages, but no hugetlbfs
  std::string why;
  if (has_option(plan.args, "--no-huge")) {
    plan.no_huge = true;
  } else if (hugepages.free_bytes >> 20 < needed_mb) {
    why = fmt::format(
        "{} MB of hugepages are free, {} MB are needed (echo {} > "
        "/proc/sys/vm/nr_hugepages)",
        hugepages.free_bytes >> 20, needed_mb, (needed_mb + 1) / 2 + 8);
  } else if (!hugepages.mounted && !in_memory) {
    why = "no hugetlbfs is mounted (mount -t hugetlbfs nodev /dev/hugepages)";
  } else if (!hugepages.writable && !in_memory) {
    why = fmt::format("{} is not writable for this user (mount it with -o uid=,gid=)",
                      hugepages.mount_point);
  }
  if (!why.empty()) {
    plan.no_huge = true;
    plan.args.push_back("--no-huge");
    plan.warning =
        fmt::format("running without hugepages (slower, and dpdk-dumpcap cannot attach): {}", why);
  }
  if (plan.no_huge && !has_memory_option(plan.args)) {
    plan.args.push_back("-m");
    plan.args.push_back(std::to_string(needed_mb));
  }
  return plan;
}

std::string keeps_captures_out(const std::vector<std::string>& args) {
  if (has_option(args, "--no-huge")) return "it needs hugepages, which --no-huge disables";
  for (const char* option : {"--in-memory", "--no-shconf"})
    if (has_option(args, option))
      return fmt::format("{} prevents other processes from attaching", option);
  for (const std::string& arg : args)
    if (arg == "--huge-unlink" || arg == "--huge-unlink=always")
      return "--huge-unlink removes the hugepage files, so a second process cannot attach";
  return {};
}

}  // namespace itif::net
