#include "sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "backbone/family.h"
#include "config/read_file.h"
#include "device/compute_types.h"
#include "device/sim/machine.h"
#include "plan/make_planner.h"
#include "sched/policy_spec.h"
#include "tenant/settings.h"

namespace itif::sim {
namespace {

using config::Reader;
using config::Report;

constexpr uint64_t kSecond = 1'000'000'000, kDay = 86400 * kSecond;
constexpr uint32_t kMaxTokens = 1u << 20;
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
constexpr std::array<std::string_view, 4> kDeadlineNames = {"none", "fixed", "uniform",
                                                            "by_length"};

void read_model(Reader& r, ModelChoice& model) {
  r.text("preset", model.preset);
  r.integer("layers", model.layers, 1, 256);
  r.integer("hidden", model.hidden, 8, 65536);
  r.integer("heads", model.heads, 1, 1024);
  r.integer("intermediate", model.intermediate, 8, 1u << 20);
  r.integer("max_positions", model.max_positions, 1, kMaxTokens);
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
  r.duration("batch_overhead", device.batch_overhead_ns, 0, kSecond);
  r.duration("request_overhead", device.request_overhead_ns, 0, kSecond);
}

void read_batching(Reader& r, config::Batching& b) {
  r.checked("scheduler", b.scheduler, sched::parse_policy_spec);
  r.choice("fidelity", b.fidelity, {"fused", "thesis"});
  r.checked("planner", b.planner, plan::parse_planner);
  r.integer("max_tokens", b.max_tokens, 16, kMaxTokens);
  r.integer("max_requests", b.max_requests, 1, 65536);
  r.integer("max_tenants", b.max_tenants, 1, 4096);
  r.integer("queue_requests", b.queue_requests, 1, 1u << 20);
  r.duration("max_wait", b.max_wait_ns, 0, 3600 * kSecond);
}

void read_data_plane(Reader& r, config::DataPlane& d) {
  r.integer("max_contexts", d.max_contexts, 16, 1u << 20);
  r.integer("tenant_max_contexts", d.tenant_max_contexts, 1, 1u << 20);
  r.duration("reassembly_timeout", d.reassembly_timeout_ns, 1'000'000, 60 * kSecond);
  r.duration("cache_ttl", d.cache_ttl_ns, 1'000'000, 600 * kSecond);
  r.boolean("require_token", d.require_token);
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

template <class Section>
void section(Report& report, Reader& root, const char* key, Section& fields,
             void (*read)(Reader&, Section&)) {
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

// The parameters that a sweep may vary.
using Setter = std::function<void(Scenario&, double)>;
const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"arrivals.rate", [](Scenario& s, double v) { s.arrivals.rate = v; }},
      {"arrivals.concurrency",
       [](Scenario& s, double v) { s.arrivals.concurrency = static_cast<uint32_t>(v); }},
      {"arrivals.burst_factor", [](Scenario& s, double v) { s.arrivals.burst_factor = v; }},
      {"arrivals.amplitude", [](Scenario& s, double v) { s.arrivals.amplitude = v; }},
      {"batching.max_requests",
       [](Scenario& s, double v) { s.batching.max_requests = static_cast<uint32_t>(v); }},
      {"batching.max_tokens",
       [](Scenario& s, double v) { s.batching.max_tokens = static_cast<uint32_t>(v); }},
      {"batching.queue_requests",
       [](Scenario& s, double v) { s.batching.queue_requests = static_cast<uint32_t>(v); }},
      {"lengths.mean", [](Scenario& s, double v) { s.lengths.mean = v; }},
      {"lengths.variance", [](Scenario& s, double v) { s.lengths.variance = v; }},
      {"lengths.from", [](Scenario& s, double v) { s.lengths.from = static_cast<uint32_t>(v); }},
      {"lengths.to", [](Scenario& s, double v) { s.lengths.to = static_cast<uint32_t>(v); }},
      {"deadlines.from_ms",
       [](Scenario& s, double v) { s.deadlines.from_ns = static_cast<uint64_t>(v * 1e6); }},
      {"deadlines.to_ms",
       [](Scenario& s, double v) { s.deadlines.to_ns = static_cast<uint64_t>(v * 1e6); }},
      {"link.loss", [](Scenario& s, double v) { s.link.loss = v; }},
      {"num_tenants",
       [](Scenario& s, double v) {
         const TenantChoice first = s.tenants.front();
         s.tenants.assign(static_cast<size_t>(std::max(1.0, v)), first);
         for (size_t i = 0; i < s.tenants.size(); ++i)
           s.tenants[i].name = fmt::format("tenant{}", i + 1);
       }},
      {"seed", [](Scenario& s, double v) { s.seed = static_cast<uint64_t>(v); }},
  };
  return all;
}

}  // namespace

uint64_t Deadlines::max_ns() const {
  switch (kind) {
    case DeadlineKind::kNone: return 0;
    case DeadlineKind::kFixed: return from_ns;
    case DeadlineKind::kUniform: return to_ns;
    case DeadlineKind::kByLength: return from_ns + uint64_t{kMaxTokens} * token_ns;
  }
  return 0;
}

Result<Scenario> load_scenario(const std::string& path) {
  Scenario s;
  s.path = path;
  ITIF_TRY(config::read_file(path, "conf/sim/example.cfg", [&s](Report& report, Reader& root) {
    root.integer("seed", s.seed, 0, INT64_MAX);
    root.duration("duration", s.duration_ns, 1'000'000, 30 * kDay);
    root.duration("warmup", s.warmup_ns, 0, kDay);
    root.integer("max_requests", s.max_requests, 0, INT64_MAX);
    root.boolean("check_answers", s.passes_marks);
    section(report, root, "model", s.model, read_model);
    section(report, root, "device", s.device, read_device);
    section(report, root, "batching", s.batching, read_batching);
    section(report, root, "data_plane", s.data_plane, read_data_plane);
    section(report, root, "arrivals", s.arrivals, read_arrivals);
    section(report, root, "lengths", s.lengths, read_lengths);
    section(report, root, "deadlines", s.deadlines, read_deadlines);
    section(report, root, "client", s.client, read_client);
    section(report, root, "link", s.link, read_link);
    read_tenants(report, root, s.tenants);
  }));
  if (Status checked = check(s); !checked)
    return fail(checked.error().code, path + ": " + checked.error().message);
  return s;
}

Status check(const Scenario& s) {
  const auto refuse = [](std::string what) {
    return fail(Code::kInvalidArgument, std::move(what));
  };
  if (s.tenants.empty()) return refuse("tenants: name at least one");
  if (s.tenants.size() > s.batching.max_tenants)
    return refuse(fmt::format("tenants: there are {}, but batching.max_tenants is {}",
                              s.tenants.size(), s.batching.max_tenants));
  if (s.lengths.kind != LengthKind::kFile && s.lengths.from > s.lengths.to)
    return refuse("lengths.from is above lengths.to");
  if (s.lengths.kind == LengthKind::kNormal &&
      (s.lengths.mean < s.lengths.from || s.lengths.mean > s.lengths.to))
    return refuse("lengths.mean must be between lengths.from and lengths.to");
  if (s.lengths.kind == LengthKind::kFile && s.lengths.file.empty())
    return refuse("lengths.file: name the file of lengths");
  if (s.arrivals.kind == ArrivalKind::kTrace && s.arrivals.trace.empty())
    return refuse("arrivals.trace: name the file of arrivals");
  if (s.arrivals.kind == ArrivalKind::kBursty &&
      s.arrivals.burst_factor * s.arrivals.burst_share > 1)
    return refuse("arrivals.burst_factor times arrivals.burst_share must be at most 1");
  if (s.deadlines.kind == DeadlineKind::kUniform && s.deadlines.from_ns > s.deadlines.to_ns)
    return refuse("deadlines.from is above deadlines.to");
  if (s.warmup_ns >= s.duration_ns) return refuse("warmup must be shorter than duration");
  if (s.passes_marks && s.batching.fidelity != "fused")
    return refuse("check_answers needs batching.fidelity fused");
  if (s.device.profile.empty() && s.device.request_overhead_ns > 0)
    return refuse("device.request_overhead needs device.profile");
  return {};
}

Status set_parameter(Scenario& scenario, const std::string& key, const std::string& value) {
  if (key == "batching.planner" || key == "batching.scheduler") {
    (key == "batching.planner" ? scenario.batching.planner : scenario.batching.scheduler) = value;
    return {};
  }
  const auto found = setters().find(key);
  if (found == setters().end()) {
    std::string keys = "batching.planner, batching.scheduler";
    for (const auto& [name, setter] : setters()) keys += ", " + name;
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' cannot be varied; the parameters are: {}", key, keys));
  }
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (end == value.c_str() || *end != '\0' || !(number >= 0))
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' is not a number", key, value));
  found->second(scenario, number);
  return check(scenario);
}

Result<model::BackboneSpec> spec_of(const ModelChoice& choice) {
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(choice.preset));
  model::BackboneSpec spec = preset->spec;
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (spec.takes_images() || !family->make)
    return fail(Code::kUnsupported,
                fmt::format("model.preset: '{}' is no text encoder: only those are simulated",
                            choice.preset));
  const auto replace = [](uint32_t& field, uint32_t value) {
    if (value != 0) field = value;
  };
  replace(spec.layers, choice.layers);
  replace(spec.hidden, choice.hidden);
  replace(spec.heads, choice.heads);
  if (choice.hidden != 0) spec.intermediate = 4 * spec.hidden;
  replace(spec.intermediate, choice.intermediate);
  replace(spec.max_positions, choice.max_positions);
  // No cost depends on the vocabulary, but the time to load a model does.
  constexpr uint32_t kVocab = 1024;
  spec.vocab = kVocab;
  if (spec.hidden % spec.heads != 0)
    return fail(Code::kInvalidArgument, "model.hidden must be a multiple of model.heads");
  return family->parse(family->config(spec), "model");
}

}  // namespace itif::sim
