#include "sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/make_planner.h"
#include "runtime/generation_options.h"

namespace itif::sim {
namespace {

constexpr size_t kMaxGroups = 64;

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what));
}

Status check_generation(const GroupScenario& s, const DeviceChoice& device) {
  const Outputs& o = s.output;
  if (Status planner = check_planner(s.model, s.batching.planner); !planner)
    return refuse("batching.planner: " + planner.error().message);
  const auto spec = spec_of(s.model);
  if (!spec) return {};  // an error of its own
  if (!generates(*spec)) {
    if (o.kind != OutputKind::kAsSource || o.beams > 1)
      return refuse(fmt::format("output: '{}' does not generate", s.model.preset));
    if (s.model.decoder_layers > 0)
      return refuse(fmt::format("model.decoder_layers: '{}' has no decoder", s.model.preset));
    return {};
  }
  if (!device.profile.empty())
    return refuse(
        "device.profile: a decoder's group does not profile the operators of its steps: "
        "choose a device.machine");
  if (s.batching.fidelity != "fused")
    return refuse("batching.fidelity: models that generate are fused");
  if (s.batching.batch_control != config::Batching{}.batch_control)
    return refuse("batching.batch_control: models that generate have no batches to bound");
  if ((o.kind == OutputKind::kUniform || o.kind == OutputKind::kNormal) && o.from > o.to)
    return refuse("output.from is above output.to");
  if (o.kind == OutputKind::kNormal && (o.mean < o.from || o.mean > o.to))
    return refuse("output.mean must be between output.from and output.to");
  if (o.kind == OutputKind::kFile && o.file.empty())
    return refuse("output.file: name the file of lengths");
  if (const auto joining = runtime::parse_joining(s.batching.joining); !joining)
    return refuse("batching.joining: " + joining.error().message);
  if (const auto cleaning = runtime::parse_cleaning(s.batching.cleaning); !cleaning)
    return refuse("batching.cleaning: " + cleaning.error().message);
  if (o.beams > s.batching.max_beams) return refuse("output.beams is above batching.max_beams");
  // The first token of a source is the number of tokens to generate (device/sim/next_tokens.h).
  if (spec->vocab <= spec->max_positions)
    return refuse("model.vocab must be above model.max_positions");
  return {};
}

Status check_images(const GroupScenario& s, const Scenario& all) {
  const auto spec = spec_of(s.model);
  if (!spec || !spec->takes_images()) return {};
  if (all.passes_marks)
    return refuse(fmt::format("check_answers: '{}' takes images, whose answers have no marks",
                              s.model.preset));
  if (!all.device.profile.empty())
    return refuse(
        fmt::format("device.profile: '{}' takes images: choose a device.machine", s.model.preset));
  if (s.arrivals.kind == ArrivalKind::kTrace)
    return refuse(
        fmt::format("arrivals.trace: a trace has texts, but '{}' takes images", s.model.preset));
  return {};
}

// A group of scenario `all`.
Status check_group(const GroupScenario& s, const Scenario& all) {
  if (s.tenants.empty()) return refuse("tenants: name at least one");
  if (s.tenants.size() > s.batching.max_tenants)
    return refuse(fmt::format("tenants: there are {}, but batching.max_tenants is {}",
                              s.tenants.size(), s.batching.max_tenants));
  for (auto tenant = s.tenants.begin(); tenant != s.tenants.end(); ++tenant)
    if (std::ranges::count(s.tenants.begin(), tenant, tenant->name, &TenantChoice::name) > 0)
      return refuse(fmt::format("tenants: '{}' is named twice", tenant->name));
  if (s.lengths.kind != LengthKind::kFile && s.lengths.from > s.lengths.to)
    return refuse("lengths.from is above lengths.to");
  if (s.lengths.kind == LengthKind::kNormal &&
      (s.lengths.mean < s.lengths.from || s.lengths.mean > s.lengths.to))
    return refuse("lengths.mean must be between lengths.from and lengths.to");
  if (s.lengths.kind == LengthKind::kFile && s.lengths.file.empty())
    return refuse("lengths.file: name the file of lengths");
  ITIF_TRY(check_generation(s, all.device));
  ITIF_TRY(check_images(s, all));
  if (s.arrivals.kind == ArrivalKind::kTrace && s.arrivals.trace.empty())
    return refuse("arrivals.trace: name the file of arrivals");
  if (s.arrivals.kind == ArrivalKind::kClosed && s.arrivals.concurrency > all.client.max_in_flight)
    return refuse("arrivals.concurrency is above client.max_in_flight");
  if (s.arrivals.kind == ArrivalKind::kBursty &&
      s.arrivals.burst_factor * s.arrivals.burst_share > 1)
    return refuse("arrivals.burst_factor times arrivals.burst_share must be at most 1");
  if (s.deadlines.kind == DeadlineKind::kUniform && s.deadlines.from_ns > s.deadlines.to_ns)
    return refuse("deadlines.from is above deadlines.to");
  if (all.passes_marks && s.batching.fidelity != "fused")
    return refuse("check_answers needs batching.fidelity fused");
  if (s.slice.from_ns >= std::min(s.slice.until_ns, all.duration_ns))
    return refuse("slice.from must be before slice.until and the scenario's duration");
  return {};
}

// A setting that the mode does not use would silently have no effect.
Status check_slices(const Scenario& s) {
  if (s.slices.mode != SliceMode::kNone && !s.device.profile.empty())
    return refuse(
        "slices.mode: a profile has the costs of the whole device: choose "
        "device.machine");
  double percent = 0, num_without = 0;
  for (size_t i = 0; i < s.num_groups(); ++i) {
    const SliceChoice& slice = s.group(i).slice;
    percent += slice.percent;
    num_without += slice.percent == 0;
    if (slice.percent > 0 && s.slices.mode != SliceMode::kFixed)
      return refuse("slice.percent needs slices.mode fixed");
    if ((slice.knee > 0 || slice.slo_ns > 0 || slice.weight != 1) &&
        s.slices.mode != SliceMode::kTuned)
      return refuse("slice.knee, slice.weight and slice.slo need slices.mode tuned");
  }
  if (percent > 100)
    return refuse(fmt::format("slice.percent: the groups' parts add up to {} %", percent));
  // The least share of an appliance's group is 1 %, too (slice::DemandOptions).
  if (s.slices.mode == SliceMode::kFixed && percent + num_without > 100)
    return refuse(fmt::format(
        "slice.percent: the groups' parts add up to {} %, and leave less than 1 % for each of the "
        "{} groups without a part",
        percent, num_without));
  return {};
}

}  // namespace

uint64_t Deadlines::max_ns() const {
  switch (kind) {
    case DeadlineKind::kNone: return 0;
    case DeadlineKind::kFixed: return from_ns;
    case DeadlineKind::kUniform: return to_ns;
    case DeadlineKind::kByLength: return from_ns + uint64_t{kMaxRequestTokens} * token_ns;
  }
  return 0;
}

Status check_planner(const ModelChoice& model, std::string_view text) {
  ITIF_ASSIGN(const plan::PlannerText planner, plan::parse_planner(text));
  const auto spec = spec_of(model);
  if (!spec || !generates(*spec)) return {};
  if (!plan::needs_cost_tables(planner.name)) return {};
  return fail(
      Code::kUnsupported,
      fmt::format("'{}' does not lay out the sources of a model that generates: its planners "
                  "are packed, naive, concat and slotted",
                  planner.name));
}

std::vector<std::string> Scenario::tenant_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < num_groups(); ++i)
    for (const TenantChoice& tenant : group(i).tenants)
      names.push_back(num_groups() == 1 ? tenant.name
                                        : fmt::format("{}/{}", group(i).name, tenant.name));
  return names;
}

Status check(const Scenario& s) {
  if (s.num_groups() > kMaxGroups)
    return refuse(fmt::format("groups: at most {} are simulated", kMaxGroups));
  for (size_t i = 0; i < s.num_groups(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (s.group(j).name == s.group(i).name)
        return refuse(fmt::format("groups: '{}' is named twice", s.group(i).name));
    Status checked = check_group(s.group(i), s);
    if (!checked && s.num_groups() > 1)
      return refuse(fmt::format("group '{}': {}", s.group(i).name, checked.error().message));
    ITIF_TRY(checked);
  }
  if (s.warmup_ns >= s.duration_ns) return refuse("warmup must be shorter than duration");
  if (s.device.profile.empty() && s.device.request_overhead_ns > 0)
    return refuse("device.request_overhead needs device.profile");
  if (!s.device.profile.empty() && s.device.inputs != "gather")
    return refuse("device.inputs: a profile has no cost of copies: choose a device.machine");
  if (!s.device.profile.empty() && s.num_groups() > 1)
    return refuse("device.profile has the costs of one group: with several, choose device.machine");
  return check_slices(s);
}

uint32_t max_output_tokens(const GroupScenario& group, const model::BackboneSpec& spec) {
  if (!generates(spec)) return 0;
  const Outputs& o = group.output;
  uint32_t most = spec.max_positions;
  if (o.kind == OutputKind::kFixed) {
    most = o.from;
  } else if (o.kind == OutputKind::kUniform || o.kind == OutputKind::kNormal) {
    most = o.to;
  } else if (o.kind == OutputKind::kAsSource && group.lengths.kind != LengthKind::kFile &&
             group.arrivals.kind != ArrivalKind::kTrace) {
    most = group.lengths.to;
  }
  return std::min(most, spec.max_positions);
}

}  // namespace itif::sim
