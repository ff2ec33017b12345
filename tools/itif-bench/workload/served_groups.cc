#include "workload/served_groups.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "make_model.h"
#include "net/eal.h"
#include "pipeline/doorbell.h"
#include "report/timing.h"
#include "runtime/make_group.h"

namespace itif::bench {
namespace {

constexpr uint64_t kLongestRestNs = 1'000'000;  // of the clients' thread
constexpr uint32_t kNumLabels = 100;  // of images: enough to compare answers by their cosine
// Controls start with batches of all that waits, and take about this many to find their size.
constexpr size_t kLeastBatches = 6;
constexpr uint64_t kAloneNs = 200'000'000, kLeastAlone = 3;
constexpr uint64_t kLongestCheckNs = 120'000'000'000;

// Starts EAL without hugepages, devices or files, for the rings. It pins the thread that starts it,
// which is undone.
Status start_rings() {
  cpu_set_t before;
  CPU_ZERO(&before);
  if (::sched_getaffinity(0, sizeof before, &before) != 0)
    return fail(Code::kInternal, fmt::format("sched_getaffinity: {}", errno_text(errno)));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  const Status started = net::start_eal({"--no-huge", "-m", "64", "--no-pci", "--no-telemetry",
                                         "--no-shconf", fmt::format("--lcores=0@{}", cpu)});
  ::sched_setaffinity(0, sizeof before, &before);
  return started;
}

}  // namespace

Result<std::unique_ptr<ServedGroups>> ServedGroups::make(const BenchOptions& options,
                                                         device::Device& device,
                                                         const std::string& dtype,
                                                         Sharing sharing) {
  static const Status started = start_rings();
  ITIF_TRY(started);
  std::unique_ptr<ServedGroups> made(new ServedGroups(options, device, dtype));
  static uint32_t serial = 0;
  ITIF_ASSIGN(made->returned_,
              pipeline::ReturnRing::create(fmt::format("bench_{}", serial++), kMaxInFlight));
  if (sharing != Sharing::kNone)
    made->shares_ = std::make_unique<serving::GroupShares>(
        kSystemClock, serving::GroupShares::Options{
                          .tunes = sharing == Sharing::kTuned,
                          // GSLICE's rule, section 3.2.3; itifd's default is equal parts.
                          .unmet_demands = slice::UnmetDemands::kProportional});
  return made;
}

ServedGroups::~ServedGroups() {
  for (size_t i = 0; i < groups_.size(); ++i) end(i);
  for (Group& group : groups_) group.stage->stop();
}

Result<size_t> ServedGroups::add(const ServedModel& model, const Batching& batching,
                                 const LoadOptions& load) {
  Group made = {.name = model.name, .slo_ns = load.slo_ns};
  device::Device* device = &device_;
  if (!shares_ && !groups_.empty() && device_.info().kind == "host") {
    ITIF_ASSIGN(
        made.own_device,
        device::open_device({.kind = "host", .dtype = dtype_, .num_threads = options_.threads}));
    device = made.own_device.get();
  }
  ITIF_ASSIGN(auto group, runtime::make_group(*device, model.spec,
                                              {.max_tokens = batching.max_tokens,
                                               .max_requests = batching.max_requests,
                                               .max_tenants = 1}));
  ITIF_TRY(group->admit(model.directory.string(), nullptr));
  execution::GroupStageOptions stage;
  stage.executor.limits = {.max_tokens = batching.max_tokens,
                           .max_requests = batching.max_requests};
  stage.executor.queue = {
      .max_requests = kMaxInFlight, .max_tenant_requests = kMaxInFlight, .max_slots = 1};
  stage.executor.batch_control = batching.control;
  stage.executor.max_wait_ns = 0;  // every request is answered
  stage.overlaps = batching.overlaps;
  stage.sharing_workers = {&client_counters_};
  pipeline::ReturnRing* returns[] = {returned_.get()};
  ITIF_ASSIGN(made.stage, execution::GroupStage::create(
                              fmt::format("{}.{}", model.name, groups_.size()), std::move(group),
                              *device, kSystemClock, returns, stage));
  made.stage->start();
  made.load = std::make_unique<GroupLoad>(static_cast<uint16_t>(groups_.size()), model.questions,
                                          model.answers.empty() ? nullptr : &model.answers,
                                          made.stage->inbox(), load);
  groups_.push_back(std::move(made));
  return groups_.size() - 1;
}

void ServedGroups::begin(size_t group) {
  Group& one = groups_[group];
  if (shares_) {
    shares_->add(static_cast<uint16_t>(group), *one.stage, {});
    shares_->set_objective(static_cast<uint16_t>(group), one.slo_ns);
  }
  one.is_active = true;
  one.load->set_active(true, kSystemClock.now_ns());
}

void ServedGroups::end(size_t group) {
  Group& one = groups_[group];
  if (!one.is_active) return;
  one.is_active = false;
  one.load->set_active(false, kSystemClock.now_ns());
  run_until(UINT64_MAX, [&] { return one.load->num_in_flight() == 0; });
  if (shares_) shares_->remove(static_cast<uint16_t>(group));
}

void ServedGroups::set_objective(size_t group, uint64_t slo_ns) {
  groups_[group].slo_ns = slo_ns;
  groups_[group].load->set_objective(slo_ns);
  if (shares_ && groups_[group].is_active)
    shares_->set_objective(static_cast<uint16_t>(group), slo_ns);
}

void ServedGroups::run_for(uint64_t ns) {
  run_until(kSystemClock.now_ns() + ns, [] { return false; });
}

void ServedGroups::run_until_each_answers(uint64_t ns) {
  std::vector<uint64_t> before;
  for (const Group& group : groups_) before.push_back(group.load->figures().answered);
  run_for(ns);
  run_until(kSystemClock.now_ns() + kLongestCheckNs, [&] {
    for (size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].is_active && groups_[i].load->figures().answered == before[i]) return false;
    return true;
  });
}

Status ServedGroups::warm_up(uint64_t ns) {
  run_for(ns);
  run_until(kSystemClock.now_ns() + kLongestCheckNs, [this] {
    return std::ranges::all_of(groups_, [](const Group& group) {
      return !group.is_active || !group.load->difference().empty() ||
             (group.load->all_answered() && group.load->batches().size() >= kLeastBatches);
    });
  });
  return check();
}

Status ServedGroups::check() const {
  for (const Group& group : groups_) {
    if (!group.load->difference().empty())
      return fail(Code::kInternal, fmt::format("{}: {}", group.name, group.load->difference()));
    if (group.is_active && !group.load->all_answered())
      return fail(Code::kInternal, fmt::format("{} has not answered every request after {} s",
                                               group.name, kLongestCheckNs / 1'000'000'000));
  }
  return {};
}

void ServedGroups::reset() {
  for (Group& group : groups_) group.load->reset();
}

void ServedGroups::draw_time_lines(uint64_t ns) {
  interval_ns_ = ns;
  next_interval_ns_ = kSystemClock.now_ns() + ns;
}

double ServedGroups::share_percent(size_t group) const {
  if (!groups_[group].is_active) return 0;
  return shares_ ? shares_->share(static_cast<uint16_t>(group)).percent : 100;
}

void ServedGroups::end_intervals(uint64_t now_ns) {
  for (; next_interval_ns_ <= now_ns; next_interval_ns_ += interval_ns_)
    for (size_t i = 0; i < groups_.size(); ++i)
      groups_[i].load->end_interval(static_cast<double>(interval_ns_) / 1e9, share_percent(i));
}

void ServedGroups::run_until(uint64_t end_ns, const std::function<bool()>& is_done) {
  pipeline::use_precise_sleeps();
  while (!is_done() && kSystemClock.now_ns() < end_ns) serve(end_ns);
}

// Takes answers, sends what is due, and rests until one of both.
void ServedGroups::serve(uint64_t end_ns) {
  std::array<pipeline::ReturnRing::Item, 64> items;
  const unsigned count = returned_->pop(items.data(), items.size());
  const uint64_t now_ns = kSystemClock.now_ns();
  for (unsigned i = 0; i < count; ++i)
    if (items[i].has_ended())
      groups_[items[i].request().group].load->take_back(items[i].request(), now_ns);
  if (now_ns >= next_interval_ns_) end_intervals(now_ns);
  uint64_t next_ns = std::min(end_ns, next_interval_ns_);
  for (Group& group : groups_) next_ns = std::min(next_ns, group.load->send(now_ns));
  if (count > 0 || next_ns <= now_ns) return;
  returned_->bell().wait(std::min(next_ns - now_ns, kLongestRestNs),
                         [this] { return !returned_->empty(); });
}

Result<ServedModels> ServedModels::make(uint32_t num_tokens) {
  ITIF_ASSIGN(ModelFolder folder, ModelFolder::make());
  return ServedModels(std::move(folder), num_tokens);
}

Result<ServedModel*> ServedModels::get(const std::string& preset, const BenchOptions& options,
                                       device::Device& device, const std::string& dtype) {
  const auto known = std::ranges::find(
      models_, preset, [](const auto& model) -> const std::string& { return model->name; });
  if (known != models_.end()) return known->get();
  ITIF_ASSIGN(const backbone::Preset* found, backbone::find_preset(preset));
  auto made =
      std::make_unique<ServedModel>(ServedModel{.name = preset,
                                                .spec = found->spec,
                                                .directory = folder_.path() / preset,
                                                .questions = Questions(found->spec, num_tokens_),
                                                .answers = {}});
  mkmodel::ModelOptions model;
  model.spec = made->spec;
  model.head = mkmodel::HeadChoice::kEmbedding;
  if (made->spec.takes_images()) {
    model.head = mkmodel::HeadChoice::kClassification;
    for (uint32_t i = 0; i < kNumLabels; ++i) model.labels.push_back(fmt::format("label {}", i));
  }
  ITIF_TRY(mkmodel::make_model(model, made->directory.string()));
  ITIF_TRY(device.register_host_memory(made->questions.memory().data(),
                                       made->questions.memory().size()));
  ITIF_ASSIGN(const auto alone, ServedGroups::make(options, device, dtype, Sharing::kNone));
  ITIF_ASSIGN(const size_t group,
              alone->add(*made, {.control = sched::BatchControlKind::kFixed, .max_requests = 1},
                         {.in_flight = 1}));
  alone->begin(group);
  ITIF_TRY(alone->warm_up(0));
  alone->reset();
  // The first answers came from cold caches.
  const LoadFigures& figures = alone->load(group).figures();
  do alone->run_for(kAloneNs);
  while (figures.answered < kLeastAlone);
  made->alone_ns = figures.execute_ns / figures.answered;
  alone->end(group);
  made->answers = alone->load(group).answers();
  models_.push_back(std::move(made));
  return models_.back().get();
}

}  // namespace itif::bench
