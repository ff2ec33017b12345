#include "control/tenants.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/log.h"
#include "control/hex.h"
#include "wire/header.h"

namespace itif::control {
namespace {

using nlohmann::json;

tenant::Key make_key(uint16_t epoch) {
  CHECK(sodium_init() >= 0);
  tenant::Key key;
  key.epoch = epoch;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

// Skips epoch 0 when the count wraps: a header without a key carries 0.
uint16_t next_epoch(uint16_t epoch) {
  return epoch == UINT16_MAX ? 1 : static_cast<uint16_t>(epoch + 1);
}

// A loader's libraries may throw; a bad model must not stop the server.
template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& e) {
    return fail(Code::kInternal, fmt::format("unexpected failure: {}", e.what()));
  }
}

}  // namespace

const char* Tenants::state_name(const Entry& entry) {
  switch (entry.condition) {
    case Condition::kLoading: return "loading";
    case Condition::kFailed: return "failed";
    case Condition::kAdmitted: break;
  }
  return entry.record.state == tenant::State::kPaused ? "paused" : "serving";
}

json Tenants::document(const Entry& entry, bool with_labels) {
  const TenantRecord& r = entry.record;
  json out = {{"id", r.id},
              {"name", r.name},
              {"state", state_name(entry)},
              {"model_dir", r.model_dir},
              {"group", r.group},
              {"slo_ns", r.slo_ns},
              {"weight", r.weight},
              {"quota_rps", r.quota_rps},
              {"auth", wire::auth_name(static_cast<wire::Auth>(r.auth))},
              {"key_epoch", r.key.epoch},
              {"created_unix_ns", r.created_unix_ns},
              {"updated_unix_ns", r.updated_unix_ns}};
  if (r.has_previous_key) out["previous_key_epoch"] = r.previous_key.epoch;
  if (!entry.message.empty()) out["message"] = entry.message;
  if (entry.condition == Condition::kAdmitted) {
    const AdmittedModel& m = entry.model;
    out["group"] = m.group;
    out["backbone"] = m.backbone;
    out["head"] = m.head;
    out["max_tokens"] = m.max_tokens;
    out["weight_bytes"] = m.weight_bytes;
    out["shared_bytes"] = m.shared_bytes;
    out["result_kind"] = m.result_kind;
    if (with_labels) out["labels"] = m.labels;
  }
  return out;
}

Result<Tenants::Entry> Tenants::find(const TenantRef& ref) const {
  const std::lock_guard lock(mutex_);
  if (const auto* id = std::get_if<uint32_t>(&ref)) {
    const auto at = entries_.find(*id);
    if (at != entries_.end()) return at->second;
    return fail(Code::kNotFound, fmt::format("there is no tenant with id {}: `itifctl tenant list` "
                                             "shows all tenants",
                                             *id));
  }
  const std::string& name = std::get<std::string>(ref);
  for (const auto& [id, entry] : entries_) {
    if (entry.record.name == name) return entry;
  }
  return fail(Code::kNotFound,
              fmt::format("there is no tenant named '{}': `itifctl tenant list` shows "
                          "all tenants",
                          name));
}

void Tenants::put(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_[entry.record.id] = std::move(entry);
}

void Tenants::erase(uint32_t id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

json Tenants::announce(const char* event, const Entry& entry) {
  notify_(event,
          {{"id", entry.record.id}, {"name", entry.record.name}, {"state", state_name(entry)}});
  return {{"tenant", document(entry, true)}};
}

void Tenants::list_as_loading(const std::vector<TenantRecord>& records) {
  for (const TenantRecord& record : records) {
    Entry entry;
    entry.record = record;
    put(std::move(entry));
  }
  appliance_.expect(records);
}

void Tenants::restore() {
  std::vector<Entry> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) all.push_back(entry);
  }
  for (Entry& entry : all) {
    if (cancelled_.load()) return;
    auto model =
        guarded([&] { return appliance_.admit(entry.record, [](const std::string&, double) {}); });
    if (model) {
      entry.condition = Condition::kAdmitted;
      entry.model = std::move(*model);
      put(entry);
      announce("tenant.restored", entry);
    } else if (cancelled_.load()) {
      return;
    } else {
      entry.condition = Condition::kFailed;
      entry.message = model.error().message;
      log::error("tenant '{}' (id {}) could not be restored: {}", entry.record.name,
                 entry.record.id, entry.message);
      put(entry);
      announce("tenant.failed", entry);
    }
  }
}

Result<json> Tenants::run(const AddTenant& op, const Progress& progress) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (entry.record.name == op.name)
        return fail(
            Code::kAlreadyExists,
            fmt::format("a tenant named '{}' exists already (id {}): choose another name, or "
                        "change that one with `itifctl tenant update`",
                        op.name, id));
    }
    if (entries_.size() >= tenant::kMaxTenants)
      return fail(Code::kResourceExhausted,
                  fmt::format("there are {} tenants, the maximum of an appliance: remove one",
                              entries_.size()));
  }
  Entry entry;
  TenantRecord& r = entry.record;
  ITIF_ASSIGN(r.id, registry_.allocate_id());
  r.name = op.name;
  r.model_dir = op.model_dir;
  r.group = op.group;
  r.slo_ns = op.slo_ns;
  r.weight = op.weight;
  r.quota_rps = op.quota_rps;
  r.auth = op.auth;
  r.key = make_key(1);
  r.created_unix_ns = r.updated_unix_ns = clock_.unix_ns();
  put(entry);  // listed as loading

  auto model = guarded([&] { return appliance_.admit(r, progress); });
  if (!model) {
    erase(r.id);
    return std::unexpected(model.error());
  }
  entry.model = std::move(*model);
  entry.condition = Condition::kAdmitted;
  if (auto committed = registry_.insert(r); !committed) {
    erase(r.id);
    if (auto undone = guarded([&] { return appliance_.remove(r.id); }); !undone)
      log::error("tenant '{}' could not be saved and serves until itifd restarts: {}", r.name,
                 undone.error().message);
    return std::unexpected(committed.error());
  }
  put(entry);
  json result = announce("tenant.added", entry);
  result["key"] = to_hex(r.key.bytes);
  return result;
}

void Tenants::put_back(const Entry& old, const Entry& changed, bool reload) {
  const uint32_t id = old.record.id;
  Status undone;
  if (old.condition == Condition::kAdmitted) {
    auto model = guarded(
        [&] { return appliance_.update(old.record, reload, [](const std::string&, double) {}); });
    if (!model) undone = std::unexpected(model.error());
  } else if (changed.condition == Condition::kAdmitted) {
    undone = guarded([&] { return appliance_.remove(id); });
    if (undone) appliance_.expect({old.record});
  } else {
    appliance_.expect({old.record});
  }
  if (!undone)
    log::error("tenant '{}' runs with settings that could not be saved, until itifd restarts: {}",
               old.record.name, undone.error().message);
}

Result<Tenants::Entry> Tenants::change(const Entry& old, TenantRecord next, bool reload,
                                       const Progress& progress) {
  next.updated_unix_ns = clock_.unix_ns();
  Entry entry = old;
  entry.record = std::move(next);
  const bool admitted = old.condition == Condition::kAdmitted;
  if (admitted || reload) {
    ITIF_ASSIGN(entry.model, guarded([&] {
                  return admitted ? appliance_.update(entry.record, reload, progress)
                                  : appliance_.admit(entry.record, progress);
                }));
    entry.condition = Condition::kAdmitted;
    entry.message.clear();
  } else {
    appliance_.expect({entry.record});
  }
  if (auto committed = registry_.update(entry.record); !committed) {
    put_back(old, entry, reload);
    return std::unexpected(committed.error());
  }
  put(entry);
  return entry;
}

Result<json> Tenants::run(const UpdateTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const Entry old, find(op.tenant));
  TenantRecord next = old.record;
  if (op.name && *op.name != next.name) {
    if (auto taken = find(*op.name))
      return fail(Code::kAlreadyExists,
                  fmt::format("a tenant named '{}' exists already (id {}): choose "
                              "another name",
                              *op.name, taken->record.id));
    next.name = *op.name;
  }
  if (op.model_dir) next.model_dir = *op.model_dir;
  if (op.slo_ns) next.slo_ns = *op.slo_ns;
  if (op.weight) next.weight = *op.weight;
  if (op.quota_rps) next.quota_rps = *op.quota_rps;
  if (op.auth) next.auth = *op.auth;
  ITIF_ASSIGN(const Entry entry, change(old, std::move(next), op.reload, progress));
  return announce("tenant.updated", entry);
}

Result<json> Tenants::run(const PauseTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const Entry old, find(op.tenant));
  TenantRecord next = old.record;
  next.state = tenant::State::kPaused;
  ITIF_ASSIGN(const Entry entry, change(old, std::move(next), false, progress));
  return announce("tenant.paused", entry);
}

Result<json> Tenants::run(const ResumeTenant& op, const Progress& progress) {
  ITIF_ASSIGN(const Entry old, find(op.tenant));
  TenantRecord next = old.record;
  next.state = tenant::State::kServing;
  // Retry a tenant that failed at start: its model may have been repaired.
  const bool reload = old.condition != Condition::kAdmitted;
  ITIF_ASSIGN(const Entry entry, change(old, std::move(next), reload, progress));
  return announce("tenant.resumed", entry);
}

Result<json> Tenants::run(const RotateKey& op, const Progress& progress) {
  ITIF_ASSIGN(const Entry old, find(op.tenant));
  TenantRecord next = old.record;
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
  ITIF_ASSIGN(const Entry entry, change(old, std::move(next), false, progress));
  json result = announce("tenant.key_rotated", entry);
  if (!op.drop_previous) result["key"] = to_hex(entry.record.key.bytes);
  return result;
}

Result<json> Tenants::run(const RemoveTenant& op, const Progress&) {
  ITIF_ASSIGN(const Entry old, find(op.tenant));
  const uint32_t id = old.record.id;
  // Delete from the registry first, since that is cheap to undo: one commit restores a row, but a
  // removed model would have to be loaded again.
  ITIF_TRY(registry_.remove(id));
  if (auto removed = guarded([&] { return appliance_.remove(id); }); !removed) {
    if (auto undone = registry_.insert(old.record); !undone)
      log::error("tenant '{}' is deleted from the registry but serves until itifd restarts: {}",
                 old.record.name, undone.error().message);
    return std::unexpected(removed.error());
  }
  erase(id);
  announce("tenant.removed", old);
  return json{{"id", id}, {"name", old.record.name}};
}

json Tenants::list() const {
  const std::lock_guard lock(mutex_);
  json tenants = json::array();
  for (const auto& [id, entry] : entries_) tenants.push_back(document(entry, false));
  return {{"tenants", std::move(tenants)}};
}

Result<json> Tenants::show(const TenantRef& ref) const {
  ITIF_ASSIGN(const Entry entry, find(ref));
  return json{{"tenant", document(entry, true)}};
}

json Tenants::counts() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int> counts = {
      {"serving", 0}, {"paused", 0}, {"loading", 0}, {"failed", 0}};
  for (const auto& [id, entry] : entries_) ++counts[state_name(entry)];
  return counts;
}

json Tenants::failures() const {
  const std::lock_guard lock(mutex_);
  json failed = json::array();
  for (const auto& [id, entry] : entries_) {
    if (entry.condition == Condition::kFailed)
      failed.push_back({{"id", id}, {"name", entry.record.name}, {"message", entry.message}});
  }
  return failed;
}

}  // namespace itif::control
