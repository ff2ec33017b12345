// An Appliance without a data plane. It records all calls, and fails or waits where a test asks for
// it.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/appliance.h"
#include "control/documents.h"
#include "tenant/version_changes.h"

namespace itif::control {

class FakeAppliance final : public Appliance, public Documents {
 public:
  void expect(const std::vector<tenant::Record>& records, const std::string& failure) override {
    const std::lock_guard lock(mutex_);
    for (const tenant::Record& record : records) {
      tenant::Info& info = infos_[record.id];
      info.record = record;
      if (!failure.empty()) set_failure(info, failure);
    }
  }
  Status admit(const tenant::Record& record, const Progress& progress) override {
    calls.push_back("admit " + record.name);
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      is_new = infos_.try_emplace(record.id, tenant::Info{.record = record}).second;
    }
    Status loaded = take_in(record, progress);
    const std::lock_guard lock(mutex_);
    if (!loaded && is_new)
      infos_.erase(record.id);
    else if (!loaded && !cancelled_)
      set_failure(infos_[record.id], loaded.error().message);
    return loaded;
  }
  void admit_listed(const std::vector<tenant::Record>& records, const OnAdmitted& done) override {
    for (const tenant::Record& record : records)
      if (!cancelled_) done(record, admit(record, [](const std::string&, double) {}));
  }
  Status update(const tenant::Record& record, Loads loads, const Progress& progress) override {
    if (!has(record.id)) return fail(Code::kNotFound, "not admitted");
    const bool is_new = this->record(record.id).version != record.version;
    calls.push_back(std::string(is_new || loads == Loads::kAll ? "reload " : "update ") +
                    record.name);
    for (const tenant::Version& version : record.others)
      if (version.state == tenant::VersionState::kCanary && loads != Loads::kActive &&
          refused_models.contains(version.model_dir))
        return fail(Code::kInvalidArgument, version.model_dir + ": tensor 'x' is misshapen");
    return take_in(record, progress);
  }
  void settle(uint32_t id) override { settled.push_back(id); }
  Result<tenant::Removal> remove(uint32_t id, uint64_t timeout_ns) override {
    calls.push_back("remove " + std::to_string(id));
    if (fail_removals) return fail(Code::kInternal, "cannot remove");
    const std::lock_guard lock(mutex_);
    if (infos_.erase(id) == 0) return fail(Code::kNotFound, "not admitted");
    return tenant::Removal{.answered = 3, .refused = 1, .in_flight = 0, .waited_ns = timeout_ns};
  }
  std::vector<tenant::VersionFigures> version_figures(uint32_t id) const override {
    std::vector<tenant::VersionFigures> all;
    const std::lock_guard lock(mutex_);
    const auto found = infos_.find(id);
    if (found == infos_.end() || !found->second.model) return all;
    all.push_back({.number = found->second.record.version,
                   .is_loaded = true,
                   .answered = 7,
                   .errors = 1,
                   .refused = 4,
                   .in_flight = 2,
                   .p50_ns = 1'000'000,
                   .p99_ns = 2'000'000});
    return all;
  }
  std::vector<tenant::Info> tenants() const override {
    const std::lock_guard lock(mutex_);
    std::vector<tenant::Info> all;
    for (const auto& [id, info] : infos_) all.push_back(info);
    return all;
  }
  std::optional<tenant::Info> tenant(const tenant::Ref& ref) const override {
    for (tenant::Info& info : tenants())
      if (ref == tenant::Ref(info.record.id) || ref == tenant::Ref(info.record.name))
        return std::move(info);
    return std::nullopt;
  }
  void expect_groups(std::map<std::string, GroupSettings> expected) override {
    groups_settings = std::move(expected);
  }
  Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                  const Progress& progress) override {
    calls.push_back("plan " + group + " " + planner);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    if (progress) progress("profiling GEMMs", 0.5);
    return std::exchange(groups_settings[group].planner, planner);
  }
  Result<std::string> set_scheduler(const std::string& group,
                                    const std::string& scheduler) override {
    calls.push_back("schedule " + group + " " + scheduler);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    if (scheduler == "magic") return fail(Code::kInvalidArgument, "'magic' is not one of: fair");
    return std::exchange(groups_settings[group].scheduler, scheduler);
  }
  Result<uint32_t> set_share(const std::string& group, uint32_t percent) override {
    calls.push_back("share " + group);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    return std::exchange(groups_settings[group].share_percent, percent).value_or(0);
  }
  Result<std::vector<unsigned>> set_cpus(const std::string& group,
                                         const std::vector<unsigned>& cpus) override {
    calls.push_back("cpus " + group);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    if (cpus == std::vector<unsigned>{1000}) return fail(Code::kInvalidArgument, "no CPU 1000");
    return std::exchange(groups_settings[group].cpus, cpus).value_or(std::vector<unsigned>());
  }
  Result<uint32_t> set_weight(const std::string& group, uint32_t weight) override {
    calls.push_back("weight " + group);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    if (weight == 999) return fail(Code::kUnsupported, "no weight 999");
    return std::exchange(groups_settings[group].weight, weight).value_or(1);
  }
  Status run_profile(const std::string& group, const Progress&) override {
    calls.push_back("profile " + group);
    return {};
  }
  Status measure_knee(const std::string& group, const Progress& progress) override {
    calls.push_back("measure knee " + group);
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    if (progress) progress("measuring the knee", 0.5);
    return {};
  }
  Status leave_failed_device(const Progress&) override {
    calls.push_back("leave failed device");
    return {};
  }
  Status reset_device(const Progress& progress) override {
    calls.push_back("reset device");
    if (progress) progress("moving", 0.5);
    const std::lock_guard lock(mutex_);
    for (auto& [id, info] : infos_) note_digest(info.record);
    return {};
  }
  Result<nlohmann::json> planner(const std::string& group) const override {
    if (group == "marian-512")
      return nlohmann::json{
          {"group", group}, {"planner", "turbo"}, {"batches", nlohmann::json::array()}};
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    const auto batch = [](const char* chosen, double packed_ns, double turbo_ns) {
      return nlohmann::json{{"requests", 12},
                            {"tokens", 90},
                            {"rows", 90},
                            {"planner", chosen},
                            {"execute_ns", 2'500'000},
                            {"offers",
                             {{{"planner", "packed"}, {"predicted_ns", packed_ns}},
                              {{"planner", "turbo"}, {"predicted_ns", turbo_ns}}}}};
    };
    return nlohmann::json{{"group", group},
                          {"planner", "auto"},
                          {"batches", {batch("packed", 2.25e6, 3.5e6), batch("turbo", 3e6, 2e6)}}};
  }
  Result<nlohmann::json> knee(const std::string& group,
                              std::optional<uint64_t> threshold_percent) const override {
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    const auto batch = [](uint32_t requests, double knee_percent, double least, double most) {
      return nlohmann::json{{"requests", requests},
                            {"tokens", 64},
                            {"knee_percent", knee_percent},
                            {"points",
                             {{{"percent", 50.0}, {"requests_per_s", least}},
                              {{"percent", 100.0}, {"requests_per_s", most}}}}};
    };
    return nlohmann::json{{"group", group},
                          {"device", "host bf16: …"},
                          {"backbone", "bert-12x768-12-3072-gelu-1e-12, …"},
                          {"threshold_percent", threshold_percent.value_or(10)},
                          {"knee_percent", threshold_percent.value_or(10) < 50 ? 100.0 : 50.0},
                          {"batches", {batch(1, 50, 95, 100), batch(8, 100, 200, 400)}}};
  }
  Result<nlohmann::json> profile(const std::string& group) const override {
    if (group == "marian-512")
      return nlohmann::json{
          {"group", group},
          {"device", "host"},
          {"backbone", "marian"},
          {"lengths", nlohmann::json::array()},
          {"range_counts", {2}},
          {"range_rows", {1}},
          {"shared_gemms",
           {{{"n", 512}, {"k", 512}, {"in_turn_ns", {{2e6}}}, {"at_once_ns", {{1e6}}}}}}};
    if (group == "bert-on-gpu")
      return nlohmann::json{{"group", group},
                            {"device", "cuda"},
                            {"backbone", "bert"},
                            {"launch_ns", 310000.0},
                            {"range_counts", {2}},
                            {"range_rows", {8, 16}},
                            {"shared_gemms",
                             {{{"n", 768},
                               {"k", 768},
                               {"times", 12},
                               {"in_turn_ns", {{1.5e6, 1.6e6}}},
                               {"at_once_ns", {{1.1e6, 1.2e6}}},
                               {"streams_ns", {{1.0e6, 1.3e6}}},
                               {"pointers_ns", {{1.4e6, 0.9e6}}},
                               {"uneven_in_turn_ns", {{1.8e6, 1.9e6}}},
                               {"uneven_streams_ns", {{1.9e6, 2.0e6}}},
                               {"uneven_at_once_ns", {{1.7e6, 2.1e6}}}}}}};
    if (group != "bert-768") return fail(Code::kNotFound, "there is no group '" + group + "'");
    return nlohmann::json{{"group", group},
                          {"device", "host"},
                          {"backbone", "bert"},
                          {"lengths", {8, 16}},
                          {"batches", {1, 2}},
                          {"gemm_ns", {{1.0, 2.0}, {2.0, 4.0}}},
                          {"counts", {2}},
                          {"sizes", {1, 2}},
                          {"batched_gemm_ns", {{{1.0, 2.0}}, {{2.0, 4.0}}}},
                          {"other_row_ns", {2100.0, 2150.0}},
                          {"launch_ns", 0.0},
                          {"range_counts", {2}},
                          {"range_rows", {8, 16}},
                          {"shared_gemms",
                           {{{"n", 2304},
                             {"k", 768},
                             {"times", 12},
                             {"in_turn_ns", {{4.1e6, 4.2e6}}},
                             {"at_once_ns", {{3.9e6, 4.5e6}}}}}}};
  }
  std::map<std::string, GroupSettings> groups_settings{{"bert-768", {"packed", "fair"}}};
  uint64_t drain(uint64_t timeout_ns) override {
    wait_until_outside();
    calls.push_back("drain " + std::to_string(timeout_ns));
    return in_flight_after_drain;
  }
  void resume_from_drain() override { calls.push_back("undrain"); }
  void cancel() noexcept override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  nlohmann::json groups() const override {
    return {{"groups", {{{"name", "bert-768"}, {"backbone", "bert 12x768, 12 heads"}}}}};
  }
  Result<nlohmann::json> tenant_stages(uint32_t id) const override {
    return nlohmann::json{{"id", id},
                          {"name", "sentiment"},
                          {"requests", 1190},
                          {"stages",
                           {stage("queue", 2'000'000, 1'900'000), stage("compute", 6e6, 5'800'000),
                            stage("total", 8'000'000, 7'700'000)}}};
  }
  mutable std::atomic<uint64_t> asked_interval_ns{0};
  Result<nlohmann::json> bottleneck(const std::string& group, uint64_t interval_ns) const override {
    asked_interval_ns = interval_ns;
    if (!group.empty() && group != "bert-768")
      return fail(Code::kNotFound, "there is no group '" + group + "'");
    return nlohmann::json{
        {"groups",
         {{{"name", "bert-768"},
           {"limit", "device"},
           {"because",
            "requests wait 6.00 ms for 3.00 ms of computing; batches run 97 % of the "
            "time"},
           {"interval_ns", 1'000'000'000},
           {"answered", 1200},
           {"requests_per_s", 1200.0},
           {"latency_ns", 10'000'000},
           {"batch_ns", 4'000'000},
           {"gue", gue.load()},
           {"overloaded", 0},
           {"late", 0},
           {"arrived_late", 0},
           {"refused",
            {{"over_quota", 30},
             {"contexts_full", 0},
             {"tenant_contexts_full", 0},
             {"held_bytes_full", 0},
             {"tenant_held_bytes_full", 0},
             {"pieces_full", 0},
             {"tenant_pieces_full", 0},
             {"sessions_full", 0}}},
           {"refused_per_s", 30.0},
           {"waiting", 12},
           {"received_datagrams", 1210},
           {"lost_datagrams", 0},
           {"worker_busy", 0.12},
           {"device_busy", 0.97},
           {"turn_wait", 0.0},
           {"intake_busy", 0.02},
           {"share_percent", 100.0},
           {"batch_fullness", 0.5},
           {"stages", true},
           {"arrive_ns", 100'000},
           {"intake_ns", 20'000},
           {"queue_ns", 6'000'000},
           {"compute_ns", 3'000'000},
           {"send_ns", 5000},
           {"total_ns", 10'000'000}}}}};
  }
  // Traces have `traced` requests: fewer than are wanted, unless a test sets more.
  Result<nlohmann::json> start_trace(uint32_t id, uint32_t requests) const override {
    if (is_tracing) return fail(Code::kUnavailable, "tenant 1 is being traced");
    is_tracing = true;
    wanted = requests;
    return nlohmann::json{{"trace", 3}, {"id", id}, {"name", "sentiment"}};
  }
  Result<nlohmann::json> trace(uint32_t number, uint32_t first) const override {
    if (!is_tracing || number != 3) return fail(Code::kNotFound, "there is no trace");
    nlohmann::json requests = nlohmann::json::array();
    // Two per answer, as if they came one by one.
    for (uint32_t i = first; i < std::min({first + 2, traced.load(), wanted.load()}); ++i)
      requests.push_back({{"request_id", 7 + i},
                          {"session", 99},
                          {"worker", 0},
                          {"tokens", 12},
                          {"status", "ok"},
                          {"arrival_ns", 5'000'000 + 1'000'000 * i},
                          {"points",
                           {point("last_piece", 120'000), point("chosen", 820'000),
                            point("computed", 2'820'000)}}});
    return nlohmann::json{{"trace", number},
                          {"id", 1},
                          {"wanted", wanted.load()},
                          {"removed", is_removed.load()},
                          {"requests", std::move(requests)}};
  }
  Result<nlohmann::json> stop_trace(uint32_t number) const override {
    if (!is_tracing || number != 3) return fail(Code::kNotFound, "there is no trace");
    is_tracing = false;
    return nlohmann::json::object();
  }
  mutable std::atomic<bool> is_tracing{false};
  std::atomic<double> gue{300.0};
  mutable std::atomic<uint32_t> wanted{0};
  std::atomic<uint32_t> traced{1};
  std::atomic<bool> is_removed{false};  // the traced tenant
  nlohmann::json stats() const override {
    return {{"tenants", nlohmann::json::array()}, {"total", {{"received", 7}}}};
  }
  nlohmann::json drops() const override {
    return {{"workers", nlohmann::json::array()},
            {"total", {{"repeated", {{"late", 60}}}, {"dropped", {{"bad_tag", 1234}}}}}};
  }
  nlohmann::json device() const override {
    if (throw_in_device) throw std::runtime_error("no device");
    return {{"kind", "host"}, {"dtype", "bf16"}};
  }
  nlohmann::json health() const override { return {{"status", "ok"}}; }
  nlohmann::json data_address() const override {
    return {{"address", "198.18.0.1"}, {"port", 9009}, {"fragment_bytes", 1368}};
  }

  // Thread-safe.
  bool has(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return infos_.contains(id) && infos_.at(id).model;
  }
  tenant::Record record(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return infos_.at(id).record;
  }
  // Returns the tenants that are listed but not loaded.
  std::map<uint32_t, tenant::Record> expected() const {
    std::map<uint32_t, tenant::Record> records;
    for (const tenant::Info& info : tenants())
      if (!info.model) records[info.record.id] = info.record;
    return records;
  }
  // Returns the number of loaded tenants.
  size_t size() const {
    const std::vector<tenant::Info> all = tenants();
    return static_cast<size_t>(
        std::ranges::count_if(all, [](const auto& info) { return info.model.has_value(); }));
  }
  // Changes what the appliance says of a loaded tenant, as a move to another device does.
  void change(uint32_t id, const std::function<void(tenant::Info&)>& edit) {
    const std::lock_guard lock(mutex_);
    edit(infos_.at(id));
  }
  // From now on each admit() blocks midway until open_gate().
  void close_gate() {
    const std::lock_guard lock(mutex_);
    gate_open_ = false;
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    gate_open_ = true;
    changed_.notify_all();
  }
  void wait_until_inside() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_; });
  }

  std::vector<std::string> calls;        // written by the worker thread; read it while that is idle
  std::vector<uint32_t> settled;         // as calls
  char digest = 'd';                     // 64 of them are that of every model; set while idle
  std::set<std::string> refused_models;  // model_dir of models that fail to load; set before start
  std::function<void()> before_return;   // called after a model has loaded
  std::atomic<bool> fail_removals{false};
  std::atomic<bool> fail_loads{false};
  std::atomic<bool> throw_in_device{false};
  std::atomic<uint64_t> in_flight_after_drain{0};

 private:
  static void set_failure(tenant::Info& info, const std::string& failure) {
    info.condition = tenant::Condition::kFailed;
    info.failure = failure;
  }
  Status take_in(const tenant::Record& record, const Progress& progress) {
    progress("reading", 0.0);
    if (fail_loads) return fail(Code::kInternal, "loader threw");
    {
      std::unique_lock lock(mutex_);
      inside_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return gate_open_ || cancelled_; });
      inside_ = false;
      changed_.notify_all();
      if (cancelled_) return fail(Code::kUnavailable, "stopping");
    }
    for (int i = 0; i <= 1000; ++i) progress("packing", i / 1000.0);
    if (refused_models.contains(record.model_dir))
      return fail(Code::kInvalidArgument, record.model_dir + ": tensor 'x' is misshapen");
    {
      const std::lock_guard lock(mutex_);
      tenant::Record placed = record;
      note_digest(placed);
      place_version(placed, placed.version,
                    {record.group.empty() ? "bert-768" : record.group, 30522, 512, 2});
      infos_[record.id] = {
          .record = std::move(placed),
          .condition = tenant::Condition::kLoaded,
          .failure = {},
          .model = tenant::LoadedModel{.group = record.group.empty() ? "bert-768" : record.group,
                                       .backbone = "bert 12x768, 12 heads",
                                       .head = "classification (2 labels)",
                                       .labels = std::make_shared<const std::vector<std::string>>(
                                           std::vector<std::string>{"NEGATIVE", "POSITIVE"}),
                                       .result_kind = "classes",
                                       .max_tokens = 512,
                                       .weight_bytes = 1234,
                                       .shared_bytes = 1234}};
    }
    if (before_return) before_return();
    return {};
  }

  // As the tenant service does when it loads the active version.
  void note_digest(tenant::Record& record) const {
    const tenant::Contents contents = {std::string(64, digest), std::string(32, '0')};
    if (record.contents.digest.empty())
      note_contents(record, record.version, contents);
    else if (record.contents != contents)
      renumber_version(record, record.version, contents, record.installed_unix_ns + 1);
  }

  static nlohmann::json stage(const char* name, uint64_t mean_ns, uint64_t p50_ns) {
    return {{"stage", name}, {"mean_ns", mean_ns}, {"p50_ns", p50_ns}, {"p99_ns", 2 * mean_ns}};
  }
  static nlohmann::json point(const char* name, uint64_t since_ns) {
    return {{"point", name}, {"since_ns", since_ns}};
  }

  void wait_until_outside() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !inside_; });
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, tenant::Info> infos_;
  bool gate_open_ = true;
  bool inside_ = false;
  bool cancelled_ = false;
};

}  // namespace itif::control
