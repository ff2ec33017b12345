#include "sim/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/read_file.h"
#include "device/compute_types.h"
#include "device/sim/machine.h"
#include "model/generation_config.h"
#include "sched/batch_control.h"
#include "sched/policy_spec.h"
#include "tenant/settings.h"

namespace itif::sim {
namespace {

using config::Reader;
using config::Report;

constexpr uint64_t kSecond = 1'000'000'000, kDay = 86400 * kSecond;
constexpr uint32_t kMaxTokens = kMaxRequestTokens;
constexpr uint32_t kMaxVocab = 65536;  // ids are sent as u16
constexpr double kMaxRate = 1e8;

template <class Enum, size_t kCount>
void choice(Reader& reader, const char* key, Enum& field,
            const std::array<std::string_view, kCount>& names) {
  std::string text(names[static_cast<size_t>(field)]);
  reader.choice(key, text, {names.begin(), names.end()});
  field = static_cast<Enum>(std::ranges::find(names, text) - names.begin());
}

constexpr std::array<std::string_view, 6> kArrivalNames = {"poisson", "constant", "bursty",
                                                           "diurnal", "trace",    "closed"};
constexpr std::array<std::string_view, 3> kLengthNames = {"uniform", "normal", "file"};
constexpr std::array<std::string_view, 5> kOutputNames = {"as_source", "fixed", "uniform", "normal",
                                                          "file"};
constexpr std::array<std::string_view, 3> kSliceModeNames = {"none", "fixed", "tuned"};
constexpr std::array<std::string_view, 2> kUnmetDemandsNames = {"proportional", "equal"};
constexpr std::array<std::string_view, 4> kDeadlineNames = {"none", "fixed", "uniform",
                                                            "by_length"};

void read_model(Reader& r, ModelChoice& model) {
  r.text("preset", model.preset);
  r.integer("layers", model.layers, 1, 256);
  r.integer("hidden", model.hidden, 8, 65536);
  r.integer("heads", model.heads, 1, 1024);
  r.integer("intermediate", model.intermediate, 8, 1u << 20);
  r.integer("max_positions", model.max_positions, 1, kMaxTokens);
  r.integer("decoder_layers", model.decoder_layers, 1, 256);
  r.integer("vocab", model.vocab, 8, kMaxVocab);
}

void read_device(Reader& r, DeviceChoice& device) {
  std::vector<std::string_view> machines;
  for (const device::Machine& machine : device::machines()) machines.push_back(machine.name);
  r.choice("machine", device.machine, machines);
  std::vector<std::string_view> dtypes = {"auto"};
  for (const NamedComputeTypes& named : kComputeTypes) dtypes.push_back(named.name);
  r.choice("dtype", device.dtype, dtypes);
  r.text("profile", device.profile);
  r.integer("threads", device.threads, 0, 1024);
  r.choice("inputs", device.inputs, {"gather", "copy"});
  r.duration("notice", device.notice_ns, 0, kSecond);
  r.duration("batch_overhead", device.batch_overhead_ns, 0, kSecond);
  r.duration("request_overhead", device.request_overhead_ns, 0, kSecond);
}

void read_batching(Reader& r, config::Batching& b, const ModelChoice& model) {
  r.checked("scheduler", b.scheduler, sched::parse_policy_spec);
  r.checked("batch_control", b.batch_control, sched::parse_batch_control);
  r.choice("fidelity", b.fidelity, {"fused", "thesis"});
  r.checked("planner", b.planner, [&](const char* text) { return check_planner(model, text); });
  r.choice("overlap", b.overlap, {"auto", "on", "off"});
  r.integer("max_tokens", b.max_tokens, 16, kMaxTokens);
  r.integer("max_requests", b.max_requests, 1, 65536);
  r.integer("max_tenants", b.max_tenants, 1, 4096);
  r.integer("max_beams", b.max_beams, 1, 4096);
  r.size("kv_cache", b.kv_cache_bytes, 1u << 20, uint64_t{1} << 40);
  r.choice("joining", b.joining, {"steps", "batches"});
  r.choice("cleaning", b.cleaning, {"sequence", "slot", "batch"});
  r.integer("queue_requests", b.queue_requests, 1, 1u << 20);
  r.duration("max_wait", b.max_wait_ns, 0, 3600 * kSecond);
}

void read_data_plane(Reader& r, config::DataPlane& d) {
  r.integer("max_contexts", d.max_contexts, 16, 1u << 20);
  r.integer("tenant_max_contexts", d.tenant_max_contexts, 1, 1u << 20);
  r.duration("reassembly_timeout", d.reassembly_timeout_ns, 1'000'000, 60 * kSecond);
  r.duration("cache_ttl", d.cache_ttl_ns, 1'000'000, 600 * kSecond);
  r.integer("max_sessions", d.max_sessions, 16, 1u << 22);
}

void read_arrivals(Reader& r, Arrivals& a) {
  choice(r, "kind", a.kind, kArrivalNames);
  r.number("rate", a.rate, 1e-6, kMaxRate);
  r.number("burst_factor", a.burst_factor, 1, 1e6);
  r.number("burst_share", a.burst_share, 1e-6, 1);
  r.duration("burst", a.burst_ns, 1000, kDay);
  r.duration("period", a.period_ns, 1'000'000, kDay);
  r.number("amplitude", a.amplitude, 0, 1);
  r.text("trace", a.trace);
  r.integer("concurrency", a.concurrency, 1, 1u << 20);
}

void read_lengths(Reader& r, Lengths& l) {
  choice(r, "kind", l.kind, kLengthNames);
  r.integer("from", l.from, 1, kMaxTokens);
  r.integer("to", l.to, 1, kMaxTokens);
  r.number("mean", l.mean, 0, kMaxTokens);
  r.number("variance", l.variance, 0, 1e12);
  r.text("file", l.file);
}

void read_output(Reader& r, Outputs& o) {
  choice(r, "kind", o.kind, kOutputNames);
  r.integer("from", o.from, 1, kMaxTokens);
  r.integer("to", o.to, 1, kMaxTokens);
  r.number("mean", o.mean, 0, kMaxTokens);
  r.number("variance", o.variance, 0, 1e12);
  r.text("file", o.file);
  r.integer("beams", o.beams, 1, model::GenerationConfig::kMaxBeams);
}

void read_deadlines(Reader& r, Deadlines& d) {
  choice(r, "kind", d.kind, kDeadlineNames);
  r.duration("from", d.from_ns, 1000, 3600 * kSecond);
  r.duration("to", d.to_ns, 1000, 3600 * kSecond);
  r.duration("per_token", d.token_ns, 0, kSecond);
}

void read_client(Reader& r, ClientChoice& c) {
  r.integer("tries", c.tries, 1, 100);
  r.duration("rto", c.rto_ns, 1'000'000, 60 * kSecond);
  r.duration("timeout", c.timeout_ns, 1'000'000, 600 * kSecond);
  r.integer("refusal_retries", c.refusal_retries, 0, 1000);
  r.integer("max_in_flight", c.max_in_flight, 1, 1u << 20);
  r.choice("auth", c.auth,
           std::vector<std::string_view>(tenant::kAuthNames.begin(), tenant::kAuthNames.end()));
}

void read_link(Reader& r, LinkOptions& l) {
  r.number("rate_bps", l.rate_bps, 1e3, 1e12);
  r.duration("delay", l.delay_ns, 0, 10 * kSecond);
  r.duration("jitter", l.jitter_ns, 0, 10 * kSecond);
  r.number("loss", l.loss, 0, 1);
  r.number("duplication", l.duplication, 0, 1);
  r.number("corruption", l.corruption, 0, 1);
}

void read_tenant(Reader& r, TenantChoice& t) {
  r.text("name", t.name);
  r.number("share", t.share, 1e-9, 1e9);
  r.integer("weight", t.settings.weight, 1, tenant::kMaxWeight);
  r.duration("slo", t.settings.slo_ns, 0, tenant::kMaxSloNs);
  r.integer("quota", t.settings.quota_rps, 0, tenant::kMaxQuotaRps);
}

template <class Section, class Read>
void section(Report& report, Reader& root, const char* key, Section& fields, Read read) {
  const config::Setting* group = root.group(key);
  if (!group) return;
  Reader reader(report, *group, key);
  read(reader, fields);
  reader.refuse_unknown();
}

void read_tenants(Report& report, Reader& root, std::vector<TenantChoice>& tenants) {
  const config::Setting* list = root.list("tenants");
  if (!list) return;
  tenants.clear();
  for (int i = 0; i < list->getLength(); ++i) {
    const config::Setting& element = (*list)[i];
    const std::string name = fmt::format("tenants[{}]", i);
    if (!element.isGroup())
      return report.add(
          element, name,
          fmt::format("expected a group {{ }}, found {}", config::type_text(element)));
    Reader reader(report, element, name);
    read_tenant(reader, tenants.emplace_back());
    reader.refuse_unknown();
    if (tenants.back().name.empty()) tenants.back().name = fmt::format("tenant{}", i + 1);
  }
}

void read_slices(Reader& r, SliceOptions& s) {
  choice(r, "mode", s.mode, kSliceModeNames);
  r.duration("period", s.period_ns, 1'000'000, 3600 * kSecond);
  r.duration("hold_down", s.hold_down_ns, 0, 3600 * kSecond);
  r.number("first_percent", s.first_percent, 1, 100);
  choice(r, "unmet_demands", s.unmet_demands, kUnmetDemandsNames);
  r.boolean("lend", s.lends);
}

void read_slice(Reader& r, SliceChoice& s) {
  r.number("percent", s.percent, 0, 100);
  r.number("knee", s.knee, 0, 100);
  r.number("weight", s.weight, 1e-6, 1e6);
  r.duration("slo", s.slo_ns, 0, tenant::kMaxSloNs);
  r.duration("from", s.from_ns, 0, 30 * kDay);
  r.duration("until", s.until_ns, 1'000'000, 30 * kDay);
}

// The sections of a group. `root` is the file itself, or an element of its list of groups.
void read_group(Report& report, Reader& root, GroupScenario& g) {
  section(report, root, "model", g.model, read_model);
  section(report, root, "batching", g.batching,
          [&](Reader& r, config::Batching& b) { read_batching(r, b, g.model); });
  section(report, root, "arrivals", g.arrivals, read_arrivals);
  section(report, root, "lengths", g.lengths, read_lengths);
  section(report, root, "output", g.output, read_output);
  section(report, root, "deadlines", g.deadlines, read_deadlines);
  section(report, root, "slice", g.slice, read_slice);
  read_tenants(report, root, g.tenants);
}

// The file's own sections are the defaults of each group.
void read_groups(Report& report, Reader& root, Scenario& s) {
  const config::Setting* list = root.list("groups");
  if (!list) return;
  if (list->getLength() == 0) return report.add(*list, "groups", "name at least one");
  const GroupScenario defaults = s;
  s.other_groups.clear();
  for (int i = 0; i < list->getLength(); ++i) {
    GroupScenario group = defaults;
    const config::Setting& element = (*list)[i];
    const std::string name = fmt::format("groups[{}]", i);
    if (!element.isGroup())
      return report.add(
          element, name,
          fmt::format("expected a group {{ }}, found {}", config::type_text(element)));
    Reader reader(report, element, name);
    group.name = fmt::format("group{}", i + 1);
    reader.text("name", group.name);
    read_group(report, reader, group);
    reader.refuse_unknown();
    if (i == 0)
      static_cast<GroupScenario&>(s) = std::move(group);
    else
      s.other_groups.push_back(std::move(group));
  }
}

void read_scenario(Report& report, Reader& root, Scenario& s) {
  root.integer("seed", s.seed, 0, INT64_MAX);
  root.duration("duration", s.duration_ns, 1'000'000, 30 * kDay);
  root.duration("warmup", s.warmup_ns, 0, kDay);
  root.integer("max_requests", s.max_requests, 0, INT64_MAX);
  root.boolean("check_answers", s.passes_marks);
  section(report, root, "device", s.device, read_device);
  section(report, root, "data_plane", s.data_plane, read_data_plane);
  section(report, root, "client", s.client, read_client);
  section(report, root, "link", s.link, read_link);
  section(report, root, "slices", s.slices, read_slices);
  read_group(report, root, s);
  read_groups(report, root, s);
}

}  // namespace

Result<Scenario> load_scenario(const std::string& path) {
  Scenario s;
  s.path = path;
  ITIF_TRY(config::read_file(path, "conf/sim/example.cfg", [&s](Report& report, Reader& root) {
    read_scenario(report, root, s);
  }));
  if (Status checked = check(s); !checked)
    return fail(checked.error().code, path + ": " + checked.error().message);
  return s;
}

Status change_scenario(const std::string& text, Scenario& scenario) {
  ITIF_TRY(config::read_text(
      text, [&](Report& report, Reader& root) { read_scenario(report, root, scenario); }));
  return check(scenario);
}

}  // namespace itif::sim
