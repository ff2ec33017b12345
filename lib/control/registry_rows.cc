#include "control/registry_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/cpu_list.h"
#include "control/arguments.h"
#include "json/json_file.h"
#include "tenant/version_changes.h"

namespace itif::control {
namespace {

// The columns that no setting is stored in; tenant_values() and read_tenant() follow this order. A
// column for each of tenant::kSettingFields comes after them.
constexpr std::string_view kTenantColumns =
    "id, name, model_dir, base_dir, group_name, state, key_epoch, key, previous_key_epoch, "
    "previous_key, created_unix_ns, updated_unix_ns, version, installed_unix_ns, canary_percent, "
    "placed_group, placed_vocab, placed_positions, placed_types, digest, file_stamp";

constexpr int64_t kMaxNs = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxStoredPercent = 99;
constexpr uint64_t kMaxSharePercent = 100;

Blob blob_of(const tenant::Key& key) {
  return {key.bytes.begin(), key.bytes.end()};
}

const char* optional_path_rule(std::string_view text) {
  return text.empty() ? nullptr : absolute_path_rule(text);
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

const char* digest_rule(std::string_view text) {
  return text.empty() || is_hex(text, 64) ? nullptr : "64 hexadecimal digits or empty";
}

const char* stamp_rule(std::string_view text) {
  return text.empty() || is_hex(text, 32) ? nullptr : "32 hexadecimal digits or empty";
}

const char* optional_spec_rule(std::string_view text) {
  return text.empty() ? nullptr : spec_rule(text);
}

std::string quoted(const std::string& text) {
  return json_file::shown(nlohmann::json(text));
}

// Reads a row's columns in order and remembers the first invalid one.
class RowReader {
 public:
  explicit RowReader(const Row& row) : row_(row) {}

  template <class T>
  T number(const char* name, uint64_t min = 0, uint64_t max = std::numeric_limits<T>::max()) {
    const auto* value = next<int64_t>(name);
    if (value == nullptr) return T{};
    if (*value < 0 || static_cast<uint64_t>(*value) < min || static_cast<uint64_t>(*value) > max) {
      note(name, fmt::format("an integer from {} to {}, found {}", min, max, *value));
      return T{};
    }
    return static_cast<T>(*value);
  }
  std::string text(const char* name, const char* (*rule)(std::string_view)) {
    const auto* value = next<std::string>(name);
    if (value == nullptr) return {};
    if (const char* const must = rule(*value))
      note(name, fmt::format("{}, found {}", must, quoted(*value)));
    return *value;
  }
  // Returns false if the blob is empty or invalid.
  bool key(const char* name, tenant::Key& out) {
    const auto* value = next<Blob>(name);
    if (value == nullptr || value->empty()) return false;
    if (value->size() != out.bytes.size()) {
      note(name, fmt::format("{} bytes, found {}", out.bytes.size(), value->size()));
      return false;
    }
    std::ranges::copy(*value, out.bytes.begin());
    return true;
  }
  void note(const char* name, std::string must) {
    if (column_ != nullptr) return;
    column_ = name;
    must_ = std::move(must);
  }
  // `row` names it: "the tenant with id 1".
  Status result(const std::string& path, const char* table, const std::string& row) const {
    if (column_ == nullptr) return {};
    return fail(Code::kCorrupt,
                fmt::format("{}: table {}, {}: {} must be {}: restore a backup, or correct the row "
                            "(docs/operations.md, \"Backup\")",
                            path, table, row, column_, must_));
  }

 private:
  template <class T>
  const T* next(const char* name) {
    const T* value = at_ < row_.size() ? std::get_if<T>(&row_[at_]) : nullptr;
    ++at_;
    if (value == nullptr) note(name, "of another type");
    return value;
  }

  const Row& row_;
  size_t at_ = 0;
  const char* column_ = nullptr;
  std::string must_;
};

tenant::Placement read_placement(RowReader& reader) {
  tenant::Placement placement;
  placement.group =
      reader.text("placed_group", [](std::string_view) -> const char* { return nullptr; });
  placement.vocab = reader.number<uint32_t>("placed_vocab");
  placement.max_positions = reader.number<uint32_t>("placed_positions");
  placement.type_vocab = reader.number<uint32_t>("placed_types");
  return placement;
}

tenant::Contents read_contents_of(RowReader& reader) {
  tenant::Contents contents;
  contents.digest = reader.text("digest", digest_rule);
  contents.stamp = reader.text("file_stamp", stamp_rule);
  return contents;
}

std::string row_of(const tenant::Record& record) {
  return fmt::format("the tenant with id {} ({})", record.id, quoted(record.name));
}

}  // namespace

std::string tenant_columns() {
  std::string list(kTenantColumns);
  for (const tenant::SettingField& field : tenant::kSettingFields)
    list += fmt::format(", {}", field.name);
  return list;
}

std::vector<Value> tenant_values(const tenant::Record& r) {
  std::vector<Value> values = {static_cast<int64_t>(r.id),
                               r.name,
                               r.model_dir,
                               r.base_dir,
                               r.group,
                               static_cast<int64_t>(r.state),
                               static_cast<int64_t>(r.key.epoch),
                               blob_of(r.key),
                               static_cast<int64_t>(r.has_previous_key ? r.previous_key.epoch : 0),
                               r.has_previous_key ? blob_of(r.previous_key) : Blob{},
                               static_cast<int64_t>(r.created_unix_ns),
                               static_cast<int64_t>(r.updated_unix_ns),
                               static_cast<int64_t>(r.version),
                               static_cast<int64_t>(r.installed_unix_ns),
                               static_cast<int64_t>(r.canary_percent),
                               r.placement.group,
                               static_cast<int64_t>(r.placement.vocab),
                               static_cast<int64_t>(r.placement.max_positions),
                               static_cast<int64_t>(r.placement.type_vocab),
                               r.contents.digest,
                               r.contents.stamp};
  for (const tenant::SettingField& field : tenant::kSettingFields)
    values.emplace_back(static_cast<int64_t>(field.get(r)));
  return values;
}

KeyWiper::~KeyWiper() {
  for (Value& value : values_)
    if (auto* const key = std::get_if<Blob>(&value)) wipe(*key);
}

Result<tenant::Record> read_tenant(const Row& row, const std::string& path) {
  RowReader reader(row);
  tenant::Record r;
  r.id = reader.number<uint32_t>("id", 1);
  r.name = reader.text("name", tenant_name_rule);
  r.model_dir = reader.text("model_dir", absolute_path_rule);
  r.base_dir = reader.text("base_dir", optional_path_rule);
  r.group = reader.text("group_name", group_name_rule);
  r.state = static_cast<tenant::State>(reader.number<uint8_t>("state", 0, 1));
  r.key.epoch = reader.number<uint16_t>("key_epoch", 1);
  if (!reader.key("key", r.key)) reader.note("key", "16 bytes, found none");
  const auto previous_epoch = reader.number<uint16_t>("previous_key_epoch");
  r.has_previous_key = reader.key("previous_key", r.previous_key);
  if (r.has_previous_key) r.previous_key.epoch = previous_epoch;
  if (r.has_previous_key != (previous_epoch != 0))
    reader.note("previous_key_epoch", "0 without a previous key, else another number");
  if (r.has_previous_key && previous_epoch == r.key.epoch)
    reader.note("previous_key_epoch", "another epoch than key_epoch");
  r.created_unix_ns = reader.number<uint64_t>("created_unix_ns", 0, kMaxNs);
  r.updated_unix_ns = reader.number<uint64_t>("updated_unix_ns", 0, kMaxNs);
  r.version = reader.number<uint32_t>("version", 1);
  r.installed_unix_ns = reader.number<uint64_t>("installed_unix_ns", 0, kMaxNs);
  r.canary_percent = reader.number<uint32_t>("canary_percent", 0, kMaxStoredPercent);
  r.placement = read_placement(reader);
  r.contents = read_contents_of(reader);
  for (const tenant::SettingField& field : tenant::kSettingFields)
    field.set(r, reader.number<uint64_t>(field.name, field.min, field.max));
  ITIF_TRY(reader.result(path, "tenant", row_of(r)));
  return r;
}

Result<std::pair<uint32_t, tenant::Version>> read_version(const Row& row, const std::string& path) {
  RowReader reader(row);
  tenant::Version version;
  const auto id = reader.number<uint32_t>("tenant_id", 1);
  version.number = reader.number<uint32_t>("number", 1);
  version.model_dir = reader.text("model_dir", absolute_path_rule);
  version.base_dir = reader.text("base_dir", optional_path_rule);
  version.installed_unix_ns = reader.number<uint64_t>("installed_unix_ns", 0, kMaxNs);
  constexpr auto kFirst = static_cast<uint64_t>(tenant::VersionState::kCanary);
  version.state = static_cast<tenant::VersionState>(
      reader.number<uint8_t>("state", kFirst, tenant::kNumVersionStates - 1));
  version.placement = read_placement(reader);
  version.contents = read_contents_of(reader);
  ITIF_TRY(reader.result(path, "other_version",
                         fmt::format("version {} of tenant {}", version.number, id)));
  return std::pair(id, std::move(version));
}

Status check_versions(const tenant::Record& record, const std::string& path) {
  const auto wrong = [&](std::string_view what) {
    return fail(Code::kCorrupt,
                fmt::format("{}: table other_version, {}: {}: restore a backup, or correct the "
                            "rows (docs/operations.md, \"Backup\")",
                            path, row_of(record), what));
  };
  const auto count = [&](tenant::VersionState state) {
    return std::ranges::count(record.others, state, &tenant::Version::state);
  };
  if (std::ranges::count(record.others, record.version, &tenant::Version::number) > 0)
    return wrong("number must differ from the active version's");
  if (record.others.size() >= tenant::kMaxVersions)
    return wrong(fmt::format("there must be at most {} rows", tenant::kMaxVersions - 1));
  if (count(tenant::VersionState::kPrevious) > 1)
    return wrong("state must be that of a previous version in one row at most");
  if (count(tenant::VersionState::kCanary) != (record.canary_percent > 0 ? 1 : 0))
    return wrong("state must be that of a canary in one row if canary_percent is not 0, else none");
  return {};
}

Result<std::pair<std::string, GroupSettings>> read_group(const Row& row, const std::string& path) {
  RowReader reader(row);
  GroupSettings settings;
  const std::string name = reader.text("name", tenant_name_rule);
  settings.planner = reader.text("planner", optional_spec_rule);
  settings.scheduler = reader.text("scheduler", optional_spec_rule);
  if (const auto percent = reader.number<uint32_t>("share_percent", 0, kMaxSharePercent);
      percent > 0)
    settings.share_percent = percent;
  const std::string cpus =
      reader.text("cpus", [](std::string_view) -> const char* { return nullptr; });
  if (!cpus.empty()) {
    if (auto list = parse_cpus(cpus))
      settings.cpus = std::move(*list);
    else
      reader.note("cpus", "a list of CPUs, found " + quoted(cpus));
  }
  if (const auto weight = reader.number<uint32_t>("weight", 1, kMaxGroupWeight); weight > 1)
    settings.weight = weight;
  ITIF_TRY(reader.result(path, "group_setting", "group " + quoted(name)));
  return std::pair(name, std::move(settings));
}

}  // namespace itif::control
