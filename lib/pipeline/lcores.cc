#include "pipeline/lcores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace itif::pipeline {
namespace {

bool names_lcores(const std::vector<std::string>& args) {
  return std::any_of(args.begin(), args.end(), [](const std::string& arg) {
    return arg.starts_with("-l") || arg.starts_with("-c") || arg.starts_with("--lcores");
  });
}

}  // namespace

Result<CpuPlan> plan_cpus(const config::Config& config, const std::vector<unsigned>& cpus) {
  CpuPlan plan{config.eal.args, config.device.cpus};
  const bool busy = config.data_plane.polling == "busy";
  size_t workers = 0;
  for (const config::Port& port : config.ports) workers += port.workers();
  if (names_lcores(plan.eal_args)) return plan;

  if (busy && workers >= cpus.size()) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("data_plane.polling = \"busy\" needs a CPU for each of {} workers and one "
                    "more for the executors, and there are {}: use \"adaptive\" or fewer "
                    "workers",
                    workers, cpus.size()));
  }
  const std::string all = fmt::format("({})", fmt::join(cpus, ","));
  std::string lcores = "0@" + all;
  for (size_t i = 0; i < workers; ++i)
    lcores += fmt::format(",{}@{}", i + 1, busy ? std::to_string(cpus[cpus.size() - 1 - i]) : all);
  plan.eal_args.push_back("--lcores=" + lcores);
  if (busy && plan.executor_cpus.empty())
    plan.executor_cpus.assign(cpus.begin(), cpus.end() - static_cast<long>(workers));
  return plan;
}

Status check_cpus(const std::vector<unsigned>& cpus) {
  const long count = sysconf(_SC_NPROCESSORS_CONF);
  for (const unsigned cpu : cpus)
    if (count > 0 && cpu >= static_cast<unsigned long>(count))
      return fail(
          Code::kInvalidArgument,
          fmt::format("device.cpus: there is no CPU {}: this machine has 0 to {}", cpu, count - 1));
  return {};
}

std::vector<size_t> workers_sharing_cpus(const PoolCpus& pool) {
  const std::vector<unsigned>& named = pool.executor_cpus;
  const auto is_pools = [&](unsigned cpu) {
    return named.empty() || std::ranges::find(named, cpu) != named.end();
  };
  std::vector<size_t> sharing;
  for (size_t worker = 0; worker < pool.worker_cpus.size(); ++worker)
    if (std::ranges::any_of(pool.worker_cpus[worker], is_pools)) sharing.push_back(worker);
  const size_t num_cpus = named.empty() ? pool.num_process_cpus : named.size();
  if (pool.num_threads == 0 || pool.num_threads + sharing.size() <= num_cpus) sharing.clear();
  return sharing;
}

std::vector<unsigned> usable_cpus() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace itif::pipeline
