#include "control/tenants.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "control/hex.h"
#include "tenant/snapshot.h"
#include "tenant/version_changes.h"

namespace itif::control {
namespace {

using nlohmann::json;

// The wait for the requests of a new tenant that could not be saved.
constexpr uint64_t kUndoTimeoutNs = 10'000'000'000;

// Returns true if both have the same versions, whatever is noted about them.
bool has_same_numbers(const tenant::Record& a, const tenant::Record& b) {
  return std::ranges::equal(all_versions(a), all_versions(b), {}, &tenant::Version::number,
                            &tenant::Version::number);
}

tenant::Key make_key(uint16_t epoch) {
  CHECK(sodium_init() >= 0);
  tenant::Key key;
  key.epoch = epoch;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

// Returns why the active version may not be loaded again: a later version was read from the same
// directories, and they held other contents. Empty: no such version is known.
std::string lost_files(const tenant::Record& record) {
  for (const tenant::Version& version : all_versions(record)) {  // newest first
    if (version.model_dir != record.model_dir || version.base_dir != record.base_dir) continue;
    if (version.number == record.version || version.contents.digest == record.contents.digest ||
        version.contents.digest.empty() || record.contents.digest.empty())
      return "";
    return fmt::format(
        "{} held other contents than version {}, which is active, when version {} was installed: "
        "no restart or handover can load version {} unless its files are put back",
        record.model_dir, record.version, version.number, record.version);
  }
  return "";
}

// Skips epoch 0 when the count wraps: a header without a key carries 0.
uint16_t next_epoch(uint16_t epoch) {
  return epoch == UINT16_MAX ? 1 : static_cast<uint16_t>(epoch + 1);
}

json document(const tenant::Info& info, bool with_labels) {
  const tenant::Record& r = info.record;
  json out = {{"id", r.id},
              {"name", r.name},
              {"state", tenant::state_name(info)},
              {"model_dir", r.model_dir},
              {"version", r.version},
              {"group", r.group},
              {"key_epoch", r.key.epoch},
              {"created_unix_ns", r.created_unix_ns},
              {"updated_unix_ns", r.updated_unix_ns}};
  for (const tenant::SettingField& field : tenant::kSettingFields) {
    const uint64_t value = field.get(r);
    if (field.choices.empty())
      out[field.name] = value;
    else
      out[field.name] = field.choices[value];
  }
  if (!r.base_dir.empty()) out["base_dir"] = r.base_dir;
  if (const tenant::Version* canary = find_version(r, tenant::VersionState::kCanary)) {
    out["canary_version"] = canary->number;
    out["canary_percent"] = r.canary_percent;
    if (!info.canary_failure.empty()) out["canary_message"] = info.canary_failure;
  }
  if (r.has_previous_key) out["previous_key_epoch"] = r.previous_key.epoch;
  if (!info.failure.empty()) out["message"] = info.failure;
  if (std::string lost = lost_files(r); !lost.empty()) out["warning"] = std::move(lost);
  if (info.condition == tenant::Condition::kLoaded) {
    const tenant::LoadedModel& m = *info.model;
    out["group"] = m.group;
    out["backbone"] = m.backbone;
    out["head"] = m.head;
    out["max_tokens"] = m.max_tokens;
    out["weight_bytes"] = m.weight_bytes;
    if (!r.base_dir.empty()) out["adapter_bytes"] = m.adapter_bytes;
    out["shared_bytes"] = m.shared_bytes;
    out["result_kind"] = m.result_kind;
    if (with_labels) out["labels"] = *m.labels;
  }
  return out;
}

}  // namespace

Result<tenant::Info> Tenants::find(const tenant::Ref& ref) const {
  if (auto info = appliance_.tenant(ref)) return std::move(*info);
  if (const auto* id = std::get_if<uint32_t>(&ref))
    return fail(Code::kNotFound, fmt::format("there is no tenant with id {}: `itifctl tenant list` "
                                             "shows all tenants",
                                             *id));
  return fail(Code::kNotFound,
              fmt::format("there is no tenant named '{}': `itifctl tenant list` shows "
                          "all tenants",
                          std::get<std::string>(ref)));
}

Result<std::string> Tenants::base_dir(const std::string& base) const {
  if (base.empty() || base.starts_with('/')) return base;
  ITIF_ASSIGN(const tenant::Info info, find(base));
  return info.record.base_dir.empty() ? info.record.model_dir : info.record.base_dir;
}

json Tenants::announce(const char* event, const tenant::Info& info) {
  if (const std::string lost = lost_files(info.record); !lost.empty())
    log::warning("tenant '{}': {}", info.record.name, lost);
  notify_(
      event,
      {{"id", info.record.id}, {"name", info.record.name}, {"state", tenant::state_name(info)}});
  return {{"tenant", document(info, true)}};
}

void Tenants::restore() {
  std::vector<tenant::Record> records;
  for (const tenant::Info& listed : appliance_.tenants())
    if (listed.condition == tenant::Condition::kLoading) records.push_back(listed.record);
  appliance_.admit_listed(records, [this](const tenant::Record& record, const Status& admitted) {
    if (!admitted && cancelled_.load()) return;
    if (!admitted)
      log::error("tenant '{}' (id {}) could not be restored: {}", record.name, record.id,
                 admitted.error().message);
    const auto info = appliance_.tenant(record.id);
    if (!info) return;
    // At once, so that no other contents get the number of a version that has answered.
    if (!has_same_numbers(info->record, record)) save_notes_of(info->record);
    announce(admitted ? "tenant.restored" : "tenant.failed", *info);
  });
  save_notes();
}

void Tenants::save_notes() {
  const auto saved = registry_.load();
  if (!saved) return log::error("registry: {}", saved.error().message);
  for (const tenant::Record& record : *saved) {
    const auto info = appliance_.tenant(record.id);
    if (info && all_versions(info->record) != all_versions(record)) save_notes_of(info->record);
  }
}

void Tenants::save_notes_of(const tenant::Record& record) {
  if (const Status updated = registry_.update(record); !updated)
    log::warning(
        "tenant '{}': the groups and contents of its versions are not saved, so a restart "
        "may choose another group, and other files may get the number of version {}: {}",
        record.name, record.version, updated.error().message);
}

Result<json> Tenants::run(const AddTenant& op, const Progress& progress) {
  if (const auto taken = appliance_.tenant(op.name))
    return fail(Code::kAlreadyExists,
                fmt::format("a tenant named '{}' exists already (id {}): choose another name, or "
                            "change that one with `itifctl tenant update`",
                            op.name, taken->record.id));
  if (const size_t count = appliance_.tenants().size(); count >= tenant::kMaxTenants)
    return fail(
        Code::kResourceExhausted,
        fmt::format("there are {} tenants, the maximum of an appliance: remove one", count));
  ITIF_ASSIGN(std::string base, base_dir(op.base));
  tenant::Record r;
  static_cast<tenant::Settings&>(r) = op.settings;
  ITIF_ASSIGN(r.id, registry_.allocate_id());
  r.name = op.name;
  r.model_dir = op.model_dir;
  r.base_dir = std::move(base);
  r.group = op.group;
  r.key = make_key(1);
  r.created_unix_ns = r.updated_unix_ns = r.installed_unix_ns = clock_.unix_ns();

  ITIF_TRY(appliance_.admit(r, progress));
  ITIF_ASSIGN(const tenant::Info info, find(r.id));
  if (auto committed = registry_.insert(info.record); !committed) {
    if (auto undone = appliance_.remove(r.id, kUndoTimeoutNs); !undone)
      log::error("tenant '{}' could not be saved and serves until itifd restarts: {}", r.name,
                 undone.error().message);
    return std::unexpected(committed.error());
  }
  json result = announce("tenant.added", info);
  result["key"] = to_hex(r.key.bytes);
  return result;
}

void Tenants::put_back(const tenant::Info& old, bool load) {
  Status undone;
  if (old.model) {
    undone =
        appliance_.update(old.record, Appliance::Loads::kActive, [](const std::string&, double) {});
    appliance_.settle(old.record.id);
  } else {
    if (load) {
      if (auto removed = appliance_.remove(old.record.id, kUndoTimeoutNs); !removed)
        undone = std::unexpected(removed.error());
    }
    if (undone) appliance_.expect({old.record}, old.failure);
  }
  if (!undone)
    log::error("tenant '{}' runs with settings that could not be saved, until itifd restarts: {}",
               old.record.name, undone.error().message);
}

Result<tenant::Info> Tenants::change(const tenant::Info& old, tenant::Record next, bool load,
                                     const Progress& progress) {
  next.updated_unix_ns = clock_.unix_ns();
  using Loads = Appliance::Loads;
  // A model that could not leave a failed device is useless there.
  const bool is_stuck = old.condition == tenant::Condition::kFailed;
  const Loads loads = !load ? Loads::kActive : is_stuck ? Loads::kAll : Loads::kMissing;
  if (old.model)
    ITIF_TRY(appliance_.update(next, loads, progress));
  else if (load)
    ITIF_TRY(appliance_.admit(next, progress));
  else
    appliance_.expect({next}, "");
  ITIF_ASSIGN(const tenant::Info changed, find(next.id));
  if (auto committed = registry_.update(changed.record); !committed) {
    put_back(old, load);
    return std::unexpected(committed.error());
  }
  appliance_.settle(next.id);
  return changed;
}

Result<json> Tenants::run(const UpdateTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  if (op.name && *op.name != next.name) {
    if (auto taken = find(*op.name))
      return fail(Code::kAlreadyExists,
                  fmt::format("a tenant named '{}' exists already (id {}): choose "
                              "another name",
                              *op.name, taken->record.id));
    next.name = *op.name;
  }
  ITIF_TRY(change_versions(op, old, next));
  op.settings.apply(next);
  ITIF_ASSIGN(const tenant::Info info, change(old, std::move(next), op.reload, progress));
  return announce("tenant.updated", info);
}

Result<json> Tenants::run(const PauseTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  next.state = tenant::State::kPaused;
  ITIF_ASSIGN(const tenant::Info info, change(old, std::move(next), false, progress));
  return announce("tenant.paused", info);
}

Result<json> Tenants::run(const ResumeTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  next.state = tenant::State::kServing;
  // Load what is not loaded: the model or its device may have been repaired.
  auto resumed = change(old, next, true, progress);
  const bool was_paused = old.record.state == tenant::State::kPaused;
  if (!resumed && was_paused && !old.canary_failure.empty()) {
    log::warning("tenant '{}' resumes without its canary: {}", next.name, resumed.error().message);
    resumed = change(old, std::move(next), false, progress);
  }
  if (!resumed) return std::unexpected(resumed.error());
  return announce("tenant.resumed", *resumed);
}

Result<json> Tenants::run(const RotateKey& op, const Progress& progress) {
  ITIF_ASSIGN(const tenant::Info old, find(op.tenant));
  tenant::Record next = old.record;
  if (op.drop_previous) {
    if (!next.has_previous_key)
      return fail(Code::kNotFound,
                  fmt::format("tenant '{}' has no previous key to drop", next.name));
    next.has_previous_key = false;
    next.previous_key = {};
  } else {
    next.previous_key = next.key;
    next.has_previous_key = true;
    next.key = make_key(next_epoch(next.key.epoch));
  }
  ITIF_ASSIGN(const tenant::Info info, change(old, std::move(next), false, progress));
  json result = announce("tenant.key_rotated", info);
  if (!op.drop_previous) result["key"] = to_hex(info.record.key.bytes);
  return result;
}

json Tenants::list() const {
  json tenants = json::array();
  for (const tenant::Info& info : appliance_.tenants()) tenants.push_back(document(info, false));
  return {{"tenants", std::move(tenants)}};
}

Result<json> Tenants::show(const tenant::Ref& ref) const {
  ITIF_ASSIGN(const tenant::Info info, find(ref));
  return json{{"tenant", document(info, true)}};
}

json Tenants::counts() const {
  std::map<std::string, int> counts = {
      {"serving", 0}, {"paused", 0}, {"loading", 0}, {"failed", 0}};
  for (const tenant::Info& info : appliance_.tenants()) ++counts[tenant::state_name(info)];
  return counts;
}

json Tenants::failures() const {
  json failed = json::array();
  for (const tenant::Info& info : appliance_.tenants()) {
    const tenant::Version* canary = find_version(info.record, tenant::VersionState::kCanary);
    if (info.condition == tenant::Condition::kFailed)
      failed.push_back(
          {{"id", info.record.id}, {"name", info.record.name}, {"message", info.failure}});
    else if (canary != nullptr && !info.canary_failure.empty())
      failed.push_back(
          {{"id", info.record.id},
           {"name", info.record.name},
           {"message",
            fmt::format("version {}, a canary, is not loaded: {}: `itifctl tenant resume {}` tries "
                        "again, `itifctl tenant rollback {}` takes it back",
                        canary->number, info.canary_failure, info.record.name, info.record.name)}});
  }
  return failed;
}

}  // namespace itif::control
