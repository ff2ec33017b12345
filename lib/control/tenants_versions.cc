// Versions of a tenant's model: new ones, canaries, rollback; and the tenant's removal.
#include <fmt/format.h>

#include "base/log.h"
#include "control/tenants.h"
#include "tenant/version_changes.h"

namespace itif::control {
namespace {

using nlohmann::json;
using tenant::VersionState;

constexpr uint64_t kDefaultRemovalNs = 10'000'000'000;

}  // namespace

Status Tenants::change_versions(const UpdateTenant& op, const tenant::Info& old,
                                tenant::Record& next) const {
  const tenant::Version* canary = find_version(next, VersionState::kCanary);
  if (!op.reload) {
    if (!op.canary_percent) return {};
    if (canary == nullptr)
      return fail(Code::kInvalidArgument,
                  fmt::format("tenant.update: tenant '{}' has no canary whose part could change: "
                              "give the model of a new one, too (model_dir, --model)",
                              next.name));
    next.canary_percent = static_cast<uint32_t>(*op.canary_percent);
    return {};
  }
  if (canary != nullptr)
    return fail(Code::kAlreadyExists,
                fmt::format("version {} of tenant '{}' is a canary: promote it or roll it back "
                            "(`itifctl tenant promote`, `tenant rollback`) before another version",
                            canary->number, next.name));
  std::string model_dir = op.model_dir.value_or(next.model_dir);
  std::string base = op.model_dir ? std::string() : next.base_dir;
  if (op.base) {
    ITIF_ASSIGN(base, base_dir(*op.base));
  }
  const uint64_t now = clock_.unix_ns();
  if (!op.canary_percent) {
    install_version(next, std::move(model_dir), now, std::move(base));
    return {};
  }
  if (!old.model)
    return fail(Code::kUnavailable,
                fmt::format("tenant '{}' has no active version that could serve beside a canary: "
                            "leave canary_percent out",
                            next.name));
  install_canary(next, std::move(model_dir), static_cast<uint32_t>(*op.canary_percent), now,
                 std::move(base));
  return {};
}

Result<json> Tenants::run(const PromoteTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  if (!promote_canary(next))
    return fail(Code::kNotFound,
                fmt::format("tenant '{}' has no canary: `itifctl tenant update {} --model DIR "
                            "--canary 5%` starts one",
                            next.name, next.name));
  ITIF_ASSIGN(const tenant::Info info, change(old, std::move(next), true, progress));
  return announce("tenant.promoted", info);
}

Result<json> Tenants::run(const RollBackTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  if (!roll_back(next))
    return fail(Code::kNotFound,
                fmt::format("version {} of tenant '{}' has no previous version that is still known",
                            next.version, next.name));
  // A canary's rollback leaves a tenant that could not be loaded as it is.
  const bool load = next.version != old.record.version;
  ITIF_ASSIGN(const tenant::Info info, change(old, std::move(next), load, progress));
  return announce("tenant.rolled_back", info);
}

Result<json> Tenants::run(const RemoveTenant& op, const Progress&) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  const uint32_t id = old.record.id;
  // Delete from the registry first, since that is cheap to undo: one commit restores a row, but a
  // removed model would have to be loaded again.
  ITIF_TRY(registry_.remove(id));
  const auto removed = appliance_.remove(id, op.timeout_ns.value_or(kDefaultRemovalNs));
  if (!removed) {
    if (auto undone = registry_.insert(old.record); !undone)
      log::error("tenant '{}' is deleted from the registry but serves until itifd restarts: {}",
                 old.record.name, undone.error().message);
    return std::unexpected(removed.error());
  }
  announce("tenant.removed", old);
  return json{{"id", id},
              {"name", old.record.name},
              {"answered", removed->answered},
              {"refused", removed->refused},
              {"in_flight", removed->in_flight},
              {"waited_ns", removed->waited_ns}};
}

Result<json> Tenants::versions(const tenant::Ref& ref) const {
  ITIF_ASSIGN(const tenant::Info info, find(ref));
  const tenant::Record& record = info.record;
  const std::vector<tenant::VersionFigures> all = appliance_.version_figures(record.id);
  json list = json::array();
  for (const tenant::Version& version : all_versions(record)) {
    json& entry = list.emplace_back(json{{"version", version.number},
                                         {"state", version_state_name(version.state)},
                                         {"model_dir", version.model_dir},
                                         {"installed_unix_ns", version.installed_unix_ns}});
    if (!version.base_dir.empty()) entry["base_dir"] = version.base_dir;
    if (!version.contents.digest.empty()) entry["digest"] = version.contents.digest;
    if (version.state == VersionState::kCanary)
      entry["percent"] = record.canary_percent;
    else if (version.state == VersionState::kActive)
      entry["percent"] = 100 - record.canary_percent;
    tenant::VersionFigures figures;
    for (const tenant::VersionFigures& one : all)
      if (one.number == version.number) figures = one;
    entry["loaded"] = figures.is_loaded;
    entry["requests"] = figures.answered + figures.errors + figures.refused + figures.in_flight;
    entry["answered"] = figures.answered;
    entry["errors"] = figures.errors;
    entry["refused"] = figures.refused;
    entry["in_flight"] = figures.in_flight;
    entry["p50_ns"] = figures.p50_ns;
    entry["p99_ns"] = figures.p99_ns;
    if (version.state == VersionState::kCanary && !info.canary_failure.empty())
      entry["message"] = info.canary_failure;
  }
  return json{{"id", record.id}, {"name", record.name}, {"versions", std::move(list)}};
}

}  // namespace itif::control
