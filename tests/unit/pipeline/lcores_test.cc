// CPUs for workers and executors, and the workers that need CPUs of a compute pool.
#include "pipeline/lcores.h"

#include <gtest/gtest.h>

#include "config/needed_memory.h"
#include "net/mempool.h"

namespace itif::pipeline {
namespace {

TEST(CpuPlan, AdaptiveSharesAllCpusAndBusyGivesWorkersSeparateCpus) {
  config::Config config;
  config.ports.resize(1);
  config.ports[0].num_queues = 1;
  auto plan = plan_cpus(config, {0, 1}).value();
  EXPECT_EQ(plan.eal_args.back(), "--lcores=0@(0,1),1@(0,1)");
  EXPECT_TRUE(plan.executor_cpus.empty());
  config.data_plane.polling = "busy";
  plan = plan_cpus(config, {0, 1, 2, 3}).value();
  EXPECT_EQ(plan.eal_args.back(), "--lcores=0@(0,1,2,3),1@3");
  EXPECT_EQ(plan.executor_cpus, (std::vector<unsigned>{0, 1, 2}));
  EXPECT_FALSE(plan_cpus(config, {0}));
  config.eal.args = {"-l", "0-1"};
  EXPECT_EQ(plan_cpus(config, {0, 1}).value().eal_args, config.eal.args);
}

// Two CPUs named by number.
PoolCpus two_threads(std::vector<unsigned> executor_cpus,
                     std::vector<std::vector<unsigned>> worker_cpus) {
  return {.num_threads = 2,
          .num_process_cpus = 4,
          .executor_cpus = std::move(executor_cpus),
          .worker_cpus = std::move(worker_cpus)};
}

TEST(WorkersSharingCpus, AreThoseThatThePoolLeavesNoCpu) {
  using Indices = std::vector<size_t>;
  EXPECT_EQ(workers_sharing_cpus(two_threads({}, {{0, 1, 2, 3}})), Indices{}) << "CPUs for all";
  EXPECT_EQ(workers_sharing_cpus(two_threads({}, {{0}, {1}, {2}})), (Indices{0, 1, 2}));
  EXPECT_EQ(workers_sharing_cpus(two_threads({0, 1}, {{2}, {3}})), Indices{}) << "separate CPUs";
  EXPECT_EQ(workers_sharing_cpus(two_threads({0, 1}, {{2}, {1, 3}})), Indices{1});
  EXPECT_EQ(workers_sharing_cpus(two_threads({0, 1, 2}, {{2}})), Indices{}) << "one is left";
  PoolCpus gpu = two_threads({0}, {{0}});
  gpu.num_threads = 0;
  EXPECT_EQ(workers_sharing_cpus(gpu), Indices{});
}

// Programs without DPDK compute it, too.
TEST(NeededMemory, CountsPacketBuffersAsDpdkDoes) {
  config::Config config;
  for (const uint32_t mbufs : {1024u, 32768u, 262144u})
    for (const uint32_t mbuf_bytes : {2048u, 9216u, 16384u}) {
      config.data_plane.mbufs = mbufs;
      config.data_plane.mbuf_bytes = mbuf_bytes;
      EXPECT_EQ(config::packet_buffers_mb(config.data_plane),
                net::mempool_mb({.name = "", .mbufs = mbufs, .mbuf_bytes = mbuf_bytes}));
    }
  config = {};
  config.ports.resize(1);
  config.ports[0].num_queues = 1;
  EXPECT_EQ(config::needed_memory_mb(config), 180u);  // as docs/operations.md says
}

}  // namespace
}  // namespace itif::pipeline
