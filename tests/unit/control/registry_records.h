// Records with a value in every field.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tenant/record.h"

namespace itif::control {

inline tenant::Record record_of(uint32_t id, const std::string& name) {
  tenant::Record r;
  r.id = id;
  r.name = name;
  r.model_dir = "/models/" + name;
  r.base_dir = "/models/base";
  r.group = "g";
  uint64_t value = 2;  // differs between settings
  for (const tenant::SettingField& field : tenant::kSettingFields) {
    field.set(r, std::clamp(value, field.min, field.max));
    ++value;
  }
  r.state = tenant::State::kPaused;
  r.key.epoch = 7;
  for (size_t i = 0; i < r.key.bytes.size(); ++i) r.key.bytes[i] = static_cast<std::byte>(i * 17);
  r.previous_key.epoch = 6;
  r.previous_key.bytes[15] = std::byte{0xff};
  r.has_previous_key = true;
  r.created_unix_ns = 1'700'000'000'000'000'001;
  r.updated_unix_ns = 1'700'000'000'000'000'002;
  r.version = 7;
  r.installed_unix_ns = 1'700'000'000'000'000'003;
  r.placement = {"g", 30522, 512, 2};
  r.contents = {std::string(64, 'a'), std::string(32, '1')};
  r.others = {{2, "/models/old", 4, tenant::VersionState::kRetired},
              {5, "/models/before", 5, tenant::VersionState::kPrevious},
              {8, "/models/new", 6, tenant::VersionState::kCanary}};
  r.others[1].placement = {"bert-2x128-2-512-gelu-1e-12.2", 100, 64, 0};
  r.others[2].contents = {std::string(64, 'b'), std::string(32, '2')};
  r.canary_percent = 5;
  return r;
}

inline void expect_equal(const tenant::Record& a, const tenant::Record& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.model_dir, b.model_dir);
  EXPECT_EQ(a.base_dir, b.base_dir);
  EXPECT_EQ(a.group, b.group);
  for (const tenant::SettingField& field : tenant::kSettingFields)
    EXPECT_EQ(field.get(a), field.get(b)) << field.name;
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.key.epoch, b.key.epoch);
  EXPECT_EQ(a.key.bytes, b.key.bytes);
  EXPECT_EQ(a.has_previous_key, b.has_previous_key);
  EXPECT_EQ(a.previous_key.epoch, b.previous_key.epoch);
  EXPECT_EQ(a.previous_key.bytes, b.previous_key.bytes);
  EXPECT_EQ(a.created_unix_ns, b.created_unix_ns);
  EXPECT_EQ(a.updated_unix_ns, b.updated_unix_ns);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.installed_unix_ns, b.installed_unix_ns);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.contents, b.contents);
  EXPECT_EQ(a.others, b.others);
  EXPECT_EQ(a.canary_percent, b.canary_percent);
}

using Tables = std::initializer_list<const char*>;

// Makes the schema that of version 10, without digests. `sql` runs a statement.
template <class Sql>
void drop_digests(const Sql& sql, Tables tables = {"tenant", "other_version"}) {
  for (const char* table : tables)
    for (const char* column : {"digest", "file_stamp"})
      sql(std::string("ALTER TABLE ") + table + " DROP COLUMN " + column);
}

// Makes the schema one that does not say where versions were placed.
template <class Sql>
void drop_placements(const Sql& sql, Tables tables = {"tenant", "other_version"}) {
  drop_digests(sql, tables);
  for (const char* table : tables)
    for (const char* column : {"group", "vocab", "positions", "types"})
      sql(std::string("ALTER TABLE ") + table + " DROP COLUMN placed_" + column);
}

// A record as an upgrade makes it from a schema without digests.
inline tenant::Record without_digests(tenant::Record record) {
  record.contents = {};
  for (tenant::Version& version : record.others) version.contents = {};
  return record;
}

}  // namespace itif::control
