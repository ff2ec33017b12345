// The rows of the registry's tables, as values and as structs. Reading checks every column.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "control/database.h"
#include "control/group_settings.h"
#include "tenant/record.h"

namespace itif::control {

// The columns of the table `tenant`, in the order of tenant_values(), without the checksum.
std::string tenant_columns();
std::vector<Value> tenant_values(const tenant::Record& record);
// Columns of the tables `other_version` and `group_setting`, in the order that is read here.
inline constexpr std::string_view kVersionColumns =
    "tenant_id, number, model_dir, base_dir, installed_unix_ns, state, placed_group, placed_vocab, "
    "placed_positions, placed_types, digest, file_stamp";
inline constexpr std::string_view kGroupColumns =
    "name, planner, scheduler, share_percent, cpus, weight";

// Overwrites the keys among values of a row when it ends.
class KeyWiper {
 public:
  explicit KeyWiper(std::span<Value> values) : values_(values) {}
  ~KeyWiper();
  KeyWiper(const KeyWiper&) = delete;
  KeyWiper& operator=(const KeyWiper&) = delete;

 private:
  const std::span<Value> values_;
};

// Each reads one row. `path` names the registry. Errors: kCorrupt: a value has the wrong type, is
// out of range, or contradicts another; names table, row and column.
Result<tenant::Record> read_tenant(const Row& row, const std::string& path);
Result<std::pair<uint32_t, tenant::Version>> read_version(const Row& row, const std::string& path);
Result<std::pair<std::string, GroupSettings>> read_group(const Row& row, const std::string& path);
// Checks a record that has all its versions: their number, the canary, the previous version.
Status check_versions(const tenant::Record& record, const std::string& path);

}  // namespace itif::control
