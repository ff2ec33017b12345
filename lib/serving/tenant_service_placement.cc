// Chooses the groups of the tenant service's models, and notes them for later starts.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "serving/tenant_service.h"
#include "tenant/version_changes.h"

namespace itif::serving {

Result<std::optional<uint16_t>> TenantService::find_group(const std::string& name,
                                                          const model::BackboneSpec& spec) const {
  bool named_one_failed = false;
  for (uint16_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) continue;
    const execution::GroupStage& stage = *stages_[i];
    if (!name.empty()) {
      if (stage.name() != name) continue;
      // The admin chose this group. Group::admit() checks that the model fits.
      if (!stage.device_failed()) return i;
      named_one_failed = true;  // its namesake on the fallback may exist
    } else if (takes(i, spec)) {
      return i;
    }
  }
  if (named_one_failed)
    return fail(Code::kUnavailable,
                fmt::format("group {} refuses all requests because its device has failed: wait "
                            "until it has moved to the fallback, name another group or none, or "
                            "restart itifd",
                            name));
  return std::nullopt;
}

// Returns the group of that name, if the model fits there and finds a slot.
std::optional<uint16_t> TenantService::find_room(const std::string& name,
                                                 const model::BackboneSpec& spec) const {
  for (uint16_t i = 0; i < stages_.size(); ++i)
    if (stages_[i] && stages_[i]->name() == name && takes(i, spec)) return i;
  return std::nullopt;
}

bool TenantService::takes(uint16_t group, const model::BackboneSpec& spec) const {
  const execution::GroupStage& stage = *stages_[group];
  return !stage.device_failed() && model::check_fits(stage.group().spec(), spec) &&
         (!is_full(group) || has_previous(group));
}

// Warns that a full group made another one necessary. The tenants of two groups share weights, but
// neither batches nor settings.
void TenantService::warn_of_full_group(const std::string& tenant, const model::BackboneSpec& spec,
                                       uint16_t made) const {
  for (uint16_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i] || i == made || !is_full(i) || stages_[i]->device_failed() ||
        !model::check_fits(stages_[i]->group().spec(), spec))
      continue;
    log::warning(
        "tenant '{}' starts the group {}, because {} is full: all {} slots (batching.max_tenants) "
        "are taken. The new group has the settings of the configuration, and no batches in common "
        "with the full one",
        tenant, stages_[made]->name(), stages_[i]->name(),
        stages_[i]->group().options().max_tenants);
    return;
  }
}

// Chooses the group for a version, and makes it if it is missing. A group that is made again has
// the name and the limits that it had.
Result<uint16_t> TenantService::choose_group(const tenant::Record& record,
                                             const tenant::Version& version,
                                             model::BackboneSpec spec,
                                             const control::Progress& progress) {
  std::string name = record.group;
  std::optional<uint16_t> found;
  const tenant::Placement& placed = version.placement;
  if (name.empty() && !placed.group.empty()) {
    found = find_room(placed.group, spec);
    if (!number_of(placed.group)) name = placed.group;
  } else if (name.empty()) {
    found = find_room(neighbour_group(record, version.number), spec);
  }
  if (!found) {
    ITIF_ASSIGN(found, find_group(name, spec));
  }
  if (!found) {
    if (!name.empty() && name == placed.group) {
      spec.vocab = std::max(spec.vocab, placed.vocab);
      spec.max_positions = std::max(spec.max_positions, placed.max_positions);
      spec.type_vocab = std::max(spec.type_vocab, placed.type_vocab);
    }
    ITIF_ASSIGN(const uint16_t made, start_group(name, spec, progress));
    if (name.empty()) warn_of_full_group(record.name, spec, made);
    return made;
  }
  while (is_full(*found) && free_previous(*found)) {
  }
  return *found;
}

// Notes where a version is loaded, and what its files hold, for later loads. REQUIRES: mutex_ is
// held.
void TenantService::note_load(tenant::Record& record, const Model& model) const {
  const model::BackboneSpec& spec = stages_[model.served.group]->group().spec();
  place_version(record, model.served.version,
                {model.info.group, spec.vocab, spec.max_positions, spec.type_vocab});
  note_contents(record, model.served.version, model.contents);
}

bool TenantService::is_full(uint16_t group) const {
  return num_slots_[group] >= stages_[group]->group().options().max_tenants;
}

}  // namespace itif::serving
