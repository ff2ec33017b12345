// The groups' tenants in a simulation: their records, keys and model files.
#include <fmt/format.h>

#include <algorithm>

#include "device/sim/row_marks.h"
#include "sim/simulation.h"

namespace itif::sim {
namespace {

constexpr uint64_t kWeightsSeed = 0x7765'6967'6874'7300;

wire::Auth auth_of(const std::string& name) {
  return name == "full"   ? wire::Auth::kFull
         : name == "none" ? wire::Auth::kNone
                          : wire::Auth::kHeader;
}

}  // namespace

Status Simulation::make_sources() {
  for (size_t i = 0; i < scenario_.num_groups(); ++i) {
    const SliceChoice& slice = scenario_.group(i).slice;
    Source& source = sources_.emplace_back();
    ITIF_ASSIGN(source.spec, spec_of(scenario_.group(i).model));
    source.duration_ns = std::min(slice.until_ns, scenario_.duration_ns) - slice.from_ns;
    results_.generates |= generates(source.spec);
    if (scenario_.num_groups() > 1 || scenario_.slices.mode != SliceMode::kNone ||
        options_.notes_batches)
      results_.interval_ns = options_.interval_ns;
    results_.groups.push_back({.name = scenario_.group(i).name, .intervals = {}});
  }
  return {};
}

Status Simulation::make_targets() {
  const std::vector<std::string> names = scenario_.tenant_names();
  for (size_t i = 0; i < scenario_.num_groups(); ++i) {
    sources_[i].first_tenant = static_cast<uint32_t>(targets_.size());
    for (const TenantChoice& choice : scenario_.group(i).tenants) {
      const auto tenant = static_cast<uint32_t>(targets_.size());
      Target& target = targets_.emplace_back();
      target.group = i;
      target.record.name = names[tenant];
      static_cast<tenant::Settings&>(target.record) = choice.settings;
      target.record.auth = static_cast<uint8_t>(auth_of(scenario_.client.auth));
      ITIF_TRY(renew(tenant, tenant + 1));
    }
  }
  return {};
}

Status Simulation::renew(uint32_t tenant, uint32_t id) {
  Target& target = targets_[tenant];
  target.record.id = id;
  target.record.key.epoch = 1;
  for (std::byte& byte : target.record.key.bytes) byte = static_cast<std::byte>(random_.next());
  target.credential = {.tenant_id = id,
                       .key = target.record.key.bytes,
                       .key_epoch = 1,
                       .auth = auth_of(scenario_.client.auth)};
  // Without marks nothing tells the models of a group apart: one set of files is enough.
  const Source& source = sources_[target.group];
  const Target& first = targets_[source.first_tenant];
  if (scenario_.passes_marks || first.record.model_dir.empty()) {
    target.mark = device::model_mark(kWeightsSeed + num_models_);
    target.record.model_dir = fmt::format("{}/model{}", directory_.path(), num_models_++);
    const GroupScenario& group = scenario_.group(target.group);
    return write_model(source.spec, target.mark, target.record.model_dir,
                       {.max_output_tokens = max_output_tokens(group, source.spec),
                        .num_beams = group.output.beams});
  }
  target.record.model_dir = first.record.model_dir;
  return {};
}

}  // namespace itif::sim
