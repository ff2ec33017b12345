#include "peers/make_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "base/check.h"
#include "peers/execution_mps.h"
#include "peers/instance.h"

namespace itif::bench {
namespace {

constexpr std::string_view kModes[] = {"seq", "multi-stream", "mps", "itif", "seq-fused", "packed"};
constexpr size_t kNumModesOfThesis = 4;

bool is_fused(std::string_view mode) {
  return mode == "seq-fused" || mode == "packed";
}

// One instance for all tenants. Their requests run together (itif, packed) or tenant by tenant.
class OneInstance final : public Execution {
 public:
  static Result<std::unique_ptr<Execution>> make(const Workload& workload, std::string_view mode) {
    auto one = std::make_unique<OneInstance>();
    one->fused_ = is_fused(mode);
    one->all_.count = workload.num_tenants();
    CHECK(one->switch_to(mode));
    ITIF_ASSIGN(one->device_, open_device(workload, workload.on.threads));
    ITIF_ASSIGN(one->instance_, make_instance(*one->device_, workload, one->all_));
    return one;
  }
  bool switch_to(std::string_view mode) override {
    const bool together = mode == "itif" || mode == "packed";
    if ((!together && !mode.starts_with("seq")) || is_fused(mode) != fused_) return false;
    turns_.clear();
    if (together) turns_ = {all_};
    for (uint32_t tenant = 0; !together && tenant < all_.count; ++tenant)
      turns_.push_back({.first = tenant, .count = 1});
    return true;
  }
  Status run() override {
    for (const TenantSpan& tenants : turns_) ITIF_TRY(instance_->run(tenants));
    return {};
  }
  Result<std::vector<float>> last_states() override {
    std::vector<float> all;
    for (const TenantSpan& tenants : turns_) {
      ITIF_ASSIGN(const std::vector<float> states, instance_->states(tenants));
      all.insert(all.end(), states.begin(), states.end());
    }
    return all;
  }
  Result<RunProfile> profile() override {
    RunProfile all;
    for (const TenantSpan& tenants : turns_) {
      ITIF_ASSIGN(const RunProfile one, instance_->profile(tenants));
      all.add(one);
    }
    return all;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Instance> instance_;
  bool fused_ = false;
  TenantSpan all_;
  std::vector<TenantSpan> turns_;
};

class MultiStream final : public Execution {
 public:
  explicit MultiStream(const Workload& workload)
      : workload_(workload),
        threads_(workload.num_tenants()),
        barrier_(workload.num_tenants() + 1) {}

  static Result<std::unique_ptr<Execution>> make(const Workload& workload) {
    auto streams = std::make_unique<MultiStream>(workload);
    for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant) {
      std::shared_ptr<device::Device>& device = streams->threads_[tenant].device;
      if (workload.on.is_gpu && tenant > 0) {
        device = streams->threads_[0].device;
      } else {
        ITIF_ASSIGN(device, open_device(workload, threads_of_tenant(workload, tenant)));
      }
    }
    for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant)
      streams->threads_[tenant].thread =
          std::thread([streams = streams.get(), tenant] { streams->serve(tenant); });
    ITIF_TRY(streams->do_all(Command::kMake));
    return streams;
  }
  ~MultiStream() override {
    if (!threads_[0].thread.joinable()) return;
    (void)do_all(Command::kEnd);
    for (TenantThread& own : threads_) own.thread.join();
  }
  Status run() override { return do_all(Command::kRun); }
  Result<std::vector<float>> last_states() override {
    ITIF_TRY(do_all(Command::kStates));
    std::vector<float> last;
    for (const TenantThread& own : threads_)
      last.insert(last.end(), own.last.begin(), own.last.end());
    return last;
  }
  Result<RunProfile> profile() override {
    ITIF_TRY(do_all(Command::kProfile));
    RunProfile all;
    for (const TenantThread& own : threads_) all.add(own.profile);
    return all;
  }

 private:
  enum class Command { kMake, kRun, kStates, kProfile, kEnd };
  struct TenantThread {
    std::thread thread;
    std::shared_ptr<device::Device> device;
    std::unique_ptr<Instance> instance;
    std::vector<float> last;
    RunProfile profile;
    Status status;
  };

  // Thread of one tenant. It owns the tenant's data, because its device stream is bound to the
  // thread.
  void serve(uint32_t tenant) {
    TenantThread& own = threads_[tenant];
    for (;;) {
      barrier_.arrive_and_wait();
      const Command command = command_;
      own.status = obey(command, tenant, own);
      if (command == Command::kEnd) own.instance.reset();
      barrier_.arrive_and_wait();
      if (command == Command::kEnd) return;
    }
  }
  Status obey(Command command, uint32_t tenant, TenantThread& own) {
    switch (command) {
      case Command::kMake: {
        ITIF_ASSIGN(own.instance, make_instance(*own.device, workload_, {.first = tenant}));
        return {};
      }
      case Command::kRun: return own.instance->run({.first = tenant});
      case Command::kStates: {
        ITIF_ASSIGN(own.last, own.instance->states({.first = tenant}));
        return {};
      }
      case Command::kProfile: {
        ITIF_ASSIGN(own.profile, own.instance->profile({.first = tenant}));
        return {};
      }
      case Command::kEnd: return {};
    }
    return {};
  }
  Status do_all(Command command) {
    command_ = command;
    barrier_.arrive_and_wait();
    barrier_.arrive_and_wait();
    for (TenantThread& own : threads_)
      if (!own.status) return std::unexpected(own.status.error());
    return {};
  }

  const Workload workload_;
  std::vector<TenantThread> threads_;
  Command command_ = Command::kMake;
  std::barrier<> barrier_;
};

}  // namespace

std::span<const std::string_view> execution_modes(const Workload& workload) {
  return workload.decodes() ? std::span(kModes).first(kNumModesOfThesis) : std::span(kModes);
}

Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload) {
  Workload own = workload;
  own.fusion_mode = is_fused(mode) || workload.decodes() ? backbone::FusionMode::kFused
                                                         : backbone::FusionMode::kThesis;
  if (mode == "multi-stream") return MultiStream::make(own);
  if (mode == "mps") return make_mps(own);
  if (std::ranges::find(execution_modes(workload), mode) != execution_modes(workload).end())
    return OneInstance::make(own, mode);
  return fail(Code::kInvalidArgument, fmt::format("no execution mode '{}'", mode));
}

}  // namespace itif::bench
