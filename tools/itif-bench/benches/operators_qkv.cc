// Figure 5.5: the operator "get Q, K, V" for four tenants with four requests of 64 tokens each. The
// limit is the same GEMMs through the library alone.
//
//   seq           three GEMMs per tenant, tenant by tenant
//   multi-stream  the same concurrently, with a thread, a stream and a share of the CPUs per tenant
//   itif          three GEMMs over all tenants
//   itif fused    one GEMM over all tenants
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "runtime/cost/gemm_scheduler.h"
#include "workload/devices.h"
#include "workload/operator_rows.h"
#include "workload/qkv.h"

namespace itif::bench {
namespace {

constexpr uint32_t kQkvRowsTenants = 4, kRows = 4 * 64;  // rows per tenant
// One thread and stream per tenant; run() runs each once.
class Streams {
 public:
  ~Streams() {
    if (threads_.empty()) return;
    is_ending_ = true;
    turn_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Status start(device::Device& device, const QkvNumbers& numbers) {
    for (uint32_t tenant = 0; tenant < kQkvRowsTenants; ++tenant) {
      ITIF_ASSIGN(Qkv qkv, Qkv::make(device, numbers, 3, tenant, 1));
      tenants_.push_back(std::move(qkv));
      ITIF_ASSIGN(auto stream, device.make_stream());
      streams_.push_back(std::move(stream));
    }
    for (uint32_t tenant = 0; tenant < kQkvRowsTenants; ++tenant)
      threads_.emplace_back([this, tenant] {
        streams_[tenant]->attach_thread();
        for (;;) {
          turn_.arrive_and_wait();
          if (is_ending_) return;
          tenants_[tenant].launch(*streams_[tenant], tenants_[tenant].ranges(),
                                  kernels::GemmMode::kSequential);
          statuses_[tenant] = run_to_end(*streams_[tenant]);
          turn_.arrive_and_wait();
        }
      });
    return {};
  }
  void run() {
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
  }
  Status check(const QkvNumbers& numbers, const std::string& name) {
    for (size_t tenant = 0; tenant < kQkvRowsTenants; ++tenant) {
      ITIF_TRY(Status(statuses_[tenant]));
      ITIF_TRY(tenants_[tenant].check(numbers, name));
    }
    return {};
  }

 private:
  std::vector<Qkv> tenants_;
  std::vector<std::unique_ptr<device::Stream>> streams_;
  std::vector<std::thread> threads_;
  std::array<Status, kQkvRowsTenants> statuses_;  // results of the last run
  bool is_ending_ = false;
  std::barrier<> turn_{kQkvRowsTenants + 1};
};

}  // namespace

Status get_qkv_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                    Report& report) {
  const std::string name = "get Q/K/V, " + dtype;
  if (!options.wants(name)) return {};
  const DType type = device.info().compute.activations;
  const uint32_t threads = device.info().num_threads;
  const QkvNumbers numbers(type, {.hidden = kHidden, .tenants = kQkvRowsTenants, .rows = kRows});
  ITIF_ASSIGN(const auto stream, device.make_stream());
  stream->attach_thread();
  ITIF_ASSIGN(const Qkv three, Qkv::make(device, numbers, 3, 0, kQkvRowsTenants));
  ITIF_ASSIGN(const Qkv one, Qkv::make(device, numbers, 1, 0, kQkvRowsTenants));
  ITIF_ASSIGN(const auto small_device,
              device::open_device({.kind = device.info().kind,
                                   .dtype = dtype,
                                   .num_threads = std::max(1u, threads / kQkvRowsTenants)}));
  Streams streams;
  ITIF_TRY(streams.start(*small_device, numbers));
  runtime::GemmScheduler scheduler(threads, kQkvRowsTenants, kQkvRowsTenants * kRows);
  const kernels::GemmMode mode = scheduler.choose(three.ranges()).mode_of(3 * kHidden, kHidden);
  const std::vector<GemmSize> sizes(kQkvRowsTenants, {kRows, 3 * kHidden, kHidden});
  ITIF_ASSIGN(const auto bare, bare_gemms(hardware_of(device.info()), sizes));
  Status status;
  const auto end = [&](const auto& launch) {
    launch();
    if (Status ran = run_to_end(*stream); !ran) status = std::move(ran);
  };

  const char* const names[] = {"seq", "multi-stream", "itif", "itif fused"};
  const std::vector<std::function<void()>> runs = {
      [&] {
        end([&] {
          for (const kernels::RowRange& range : three.ranges())
            three.launch(*stream, {&range, 1}, kernels::GemmMode::kSequential);
        });
      },
      [&] { streams.run(); }, [&] { end([&] { three.launch(*stream, three.ranges(), mode); }); },
      [&] { end([&] { one.launch(*stream, one.ranges(), mode); }); }, [&] { bare->run(); }};
  for (size_t i = 0; i < std::size(names); ++i) {
    runs[i]();
    ITIF_TRY(i == 1   ? streams.check(numbers, names[i])
             : i == 3 ? one.check(numbers, names[i])
                      : three.check(numbers, names[i]));
  }
  const auto samples = measure(runs, options.effort());
  ITIF_TRY(std::move(status));
  const double limit = samples.back().median() * 1e-6;
  for (size_t i = 0; i < std::size(names); ++i)
    report.add({.name = name,
                .mode = names[i],
                .value = samples[i].median() * 1e-6,
                .unit = "ms",
                .spread = samples[i].spread(),
                .limit = limit,
                .ratio = samples[i].median() * 1e-6 / limit});
  return {};
}

}  // namespace itif::bench
