#include "control/dispatch.h"

#include <fmt/format.h>

#include <exception>

#include "base/log.h"

namespace itif::control {
namespace {

using nlohmann::json;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;  // clang before 17 does not deduce it

template <class F>
Result<json> guarded(F&& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    log::error("control: unexpected failure: {}", e.what());
    return fail(Code::kInternal, fmt::format("unexpected failure: {}", e.what()));
  }
}

}  // namespace

Dispatcher::Dispatcher(Registry& registry, Appliance& appliance, const Documents& documents,
                       const Clock& clock, Notify notify, std::string events_endpoint)
    : registry_(registry),
      appliance_(appliance),
      documents_(documents),
      clock_(clock),
      notify_(notify),
      events_endpoint_(std::move(events_endpoint)),
      groups_(registry, appliance, documents, notify_),
      tenants_(registry, appliance, clock, std::move(notify)),
      started_unix_ns_(clock.unix_ns()) {}

void Dispatcher::restore() {
  tenants_.restore();
  restoring_.store(false);
  notify_("server.restored", {{"tenants", tenants_.counts()}});
}

void Dispatcher::cancel() {
  if (handover_ != nullptr) handover_->cancel();
  tenants_.cancel();
  appliance_.cancel();
}

void Dispatcher::look_after() {
  appliance_.free_unused();
  check_registry();
  appliance_.measure_missing();
}

void Dispatcher::check_registry() {
  const Status checked = registry_.check_files();
  std::string problem = checked ? "" : checked.error().message;
  const std::lock_guard lock(registry_mutex_);
  if (problem == registry_problem_) return;
  registry_problem_ = std::move(problem);
  if (registry_problem_.empty())
    log::info("registry: its files are back: changes are saved again");
  else
    log::error("registry: {}", registry_problem_);
  notify_("registry.changed", {{"error", registry_problem_}});
}

json Dispatcher::health(const JobThreadStatus& worker) const {
  json appliance = documents_.health();
  json failed = tenants_.failures();
  const std::string registry = [this] {
    const std::lock_guard lock(registry_mutex_);
    return registry_problem_.empty() ? "ok" : registry_problem_;
  }();
  const bool registry_ok = registry == "ok";
  const bool appliance_ok = appliance.is_object() && appliance.value("status", "ok") == "ok";
  const char* status = draining_.load()                                   ? "draining"
                       : restoring_.load()                                ? "restoring"
                       : !failed.empty() || !appliance_ok || !registry_ok ? "degraded"
                                                                          : "ok";
  json out = {{"status", status},
              {"started_unix_ns", started_unix_ns_},
              {"tenants", tenants_.counts()},
              {"failed", std::move(failed)},
              {"registry", registry},
              {"waiting", worker.waiting},
              {"events_endpoint", events_endpoint_},
              {"appliance", std::move(appliance)}};
  if (!worker.running.empty()) out["running"] = worker.running;
  return out;
}

Result<json> Dispatcher::answer(const QuickOperation& op, const JobThreadStatus& worker) const {
  return guarded([&] {
    return std::visit(
        Overloaded{
            [&](const ListTenants&) -> Result<json> { return tenants_.list(); },
            [&](const ShowTenant& show) -> Result<json> { return tenants_.show(show.tenant); },
            [&](const ShowVersions& show) -> Result<json> {
              return tenants_.versions(show.tenant);
            },
            [&](const ShowStages& show) -> Result<json> {
              ITIF_ASSIGN(const tenant::Info info, tenants_.find(show.tenant));
              return documents_.tenant_stages(info.record.id);
            },
            [&](const ListGroups&) -> Result<json> { return documents_.groups(); },
            [&](const ShowBottleneck& show) -> Result<json> {
              return documents_.bottleneck(show.group, show.interval_ns);
            },
            [&](const StartTrace& start) -> Result<json> {
              ITIF_ASSIGN(const tenant::Info info, tenants_.find(start.tenant));
              return documents_.start_trace(info.record.id, start.requests);
            },
            [&](const ReadTrace& read) -> Result<json> {
              return documents_.trace(read.trace, read.first);
            },
            [&](const StopTrace& stop) -> Result<json> {
              return documents_.stop_trace(stop.trace);
            },
            [&](const ShowPlanner& show) -> Result<json> { return documents_.planner(show.group); },
            [&](const ShowProfile& show) -> Result<json> { return documents_.profile(show.group); },
            [&](const ShowKnee& show) -> Result<json> {
              return documents_.knee(show.group, show.threshold_percent);
            },
            [&](const Stats&) -> Result<json> { return documents_.stats(); },
            [&](const Drops&) -> Result<json> { return documents_.drops(); },
            [&](const ShowDevice&) -> Result<json> { return documents_.device(); },
            [&](const Health&) -> Result<json> { return health(worker); },
            [&](const DataAddress&) -> Result<json> { return documents_.data_address(); }},
        op);
  });
}

Result<json> Dispatcher::stats() const {
  return guarded([&]() -> Result<json> { return documents_.stats(); });
}

Result<json> Dispatcher::run(const WorkerOperation& op, const Progress& progress) {
  return guarded(
      [&] { return std::visit([&](const auto& one) { return run_one(one, progress); }, op); });
}

uint64_t Dispatcher::drain(uint64_t timeout_ns) {
  draining_.store(true);
  notify_("drain.started", {{"timeout_ns", timeout_ns}});
  const uint64_t in_flight = appliance_.drain(timeout_ns);
  notify_("drain.finished", {{"in_flight", in_flight}});
  return in_flight;
}

void Dispatcher::leave_failed_device() {
  notify_("device.failed", json::object());
  const Status left = appliance_.leave_failed_device({});
  tenants_.save_notes();
  if (!left) log::error("control: some tenants have no device: {}", left.error().message);
  notify_("device.left", {{"error", left ? "" : left.error().message}});
}

Result<json> Dispatcher::run_one(const ResetDevice&, const Progress& progress) {
  const Status reset = appliance_.reset_device(progress);
  tenants_.save_notes();
  ITIF_TRY(reset);
  notify_("device.reset", json::object());
  return documents_.device();
}

Result<json> Dispatcher::run_one(const Drain& op, const Progress&) {
  const uint64_t in_flight = drain(op.timeout_ns.value_or(kDefaultDrainNs));
  return json{{"in_flight", in_flight}, {"drained", in_flight == 0}};
}

Result<json> Dispatcher::run_one(const HandOver& op, const Progress& progress) {
  if (handover_ == nullptr)
    return fail(Code::kUnsupported, "this server cannot hand over to another process");
  if (draining_.load())
    return fail(
        Code::kUnavailable,
        "the appliance is draining: `itifctl undrain` first, or stop it and start the other "
        "itifd");
  return handover_->run(op, progress);
}

Result<json> Dispatcher::run_one(const Undrain&, const Progress&) {
  appliance_.resume_from_drain();
  draining_.store(false);
  notify_("drain.cancelled", json::object());
  return json::object();
}

}  // namespace itif::control
