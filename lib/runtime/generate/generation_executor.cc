#include "runtime/generate/generation_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "plan/make_planner.h"
#include "runtime/generate/generated_result.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

constexpr uint32_t kBlockTokens = backbone::Decoder::kBlockTokens;
constexpr double kPaceShare = 0.1;  // weight of the newest value in the pace

// All sequences may enter with one step.
plan::PlanLimits source_limits(const DecoderGroup& group, const ExecutorOptions& options) noexcept {
  return {.max_requests = group.max_beams(), .max_rows = options.limits.max_tokens};
}

uint32_t blocks_of(uint32_t tokens) noexcept {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

sched::PolicyOptions generation_policy_options(const ExecutorOptions& options) noexcept {
  return {.limits = options.limits,
          .queue = options.queue,
          .continuous = true,
          .max_wait_ns = options.max_wait_ns};
}

}  // namespace

Result<std::unique_ptr<GenerationExecutor>> GenerationExecutor::create(
    DecoderGroup& group, device::Stream& stream, const Clock& clock,
    const ExecutorOptions& options) {
  ITIF_ASSIGN(auto policy,
              sched::make_policy(options.scheduler, generation_policy_options(options)));
  ITIF_ASSIGN(auto planner,
              plan::make_planner("packed", {.limits = source_limits(group, options)}));
  return std::unique_ptr<GenerationExecutor>(
      new GenerationExecutor(group, stream, clock, options, std::move(policy), std::move(planner)));
}

GenerationExecutor::GenerationExecutor(DecoderGroup& group, device::Stream& stream,
                                       const Clock& clock, const ExecutorOptions& options,
                                       std::unique_ptr<sched::BatchPolicy> policy,
                                       std::unique_ptr<plan::Planner> planner)
    : group_(group),
      stream_(&stream),
      clock_(clock),
      options_(options),
      max_beams_(group.max_beams()),
      policy_(std::move(policy)),
      admission_(group, clock, options, *policy_,
                 {.max_tokens = options.limits.max_tokens, .image = {}, .generates = true},
                 2 * max_beams_ + options.limits.max_requests),
      blocks_(group.num_kv_blocks()),
      holds_(blocks_, options.generation.cleaning),
      layout_(max_beams_, options.limits.max_tokens, group.spec().max_positions, group.buckets()),
      planner_(std::move(planner), source_limits(group, options)),
      items_(max_beams_) {
  entered_.reserve(max_beams_);
  plan_.reserve(max_beams_);
  choice_.reserve(generation_policy_options(options));
  // max_beams_ each have ended and wait for their answer, run, and have entered for the next batch.
  for (uint32_t i = 0; i < 3 * max_beams_; ++i) spare_.push_back(std::make_unique<Sequence>());
  for (Entered* entered : {&running_, &next_}) entered->sequences.reserve(max_beams_);
  ended_.reserve(max_beams_);
  encoded_.reserve(max_beams_);
  candidates_.reserve(size_t{model::GenerationConfig::kMaxBeams} * kernels::kMaxTopTokens);
  log_probabilities_.resize(size_t{max_beams_} * kernels::kMaxTopTokens);
  tokens_.resize(log_probabilities_.size());
  answered_.reserve(max_beams_);
}

Status GenerationExecutor::supports_every_planner() const {
  return fail(Code::kUnsupported,
              "the group generates token by token, so its planners are packed, naive, concat and "
              "slotted");
}

Status GenerationExecutor::set_planner(std::string_view name, const device::DeviceInfo&,
                                       const std::shared_ptr<const plan::CostTables>&) {
  if (plan::needs_cost_tables(name)) return supports_every_planner();
  ITIF_ASSIGN(auto planner, plan::make_planner(name, {.limits = planner_.limits()}));
  planner_.replace(std::move(planner));
  return {};
}

Status GenerationExecutor::set_scheduler(std::string_view scheduler) {
  ITIF_ASSIGN(auto policy, sched::make_policy(scheduler, generation_policy_options(options_)));
  policy->take_over(*policy_, clock_.now_ns(), {});
  policy_ = std::move(policy);
  admission_.use_policy(*policy_);
  return {};
}

void GenerationExecutor::submit(request::Request* request) noexcept {
  const model::TenantModel* model =
      admission_.admit(request, [&](const model::TenantModel& tenant) {
        return expected_wait_ns(request->slot, tenant.head.spec.generation.front());
      });
  if (model == nullptr) return;
  if (const Refusal why = check_result_kind(*request, *model))
    return admission_.refuse(request, why);
  if (!admission_.prepare(request, *model)) return;
  const model::GenerationConfig& config = model->head.spec.generation.front();
  if (config.num_beams > max_beams_ || blocks_needed(*request, config) > blocks_.num_blocks())
    return admission_.refuse(request, {StatusCode::kTooLong,
                                       "the sequence may need more K/V memory than the group has"});
  admission_.push(request, {});
}

// Time to serve the tenant's backlog at the recent pace, except for sequences that find room at the
// next step.
double GenerationExecutor::expected_wait_ns(uint32_t slot,
                                            const model::GenerationConfig& config) const noexcept {
  const auto selected =
      static_cast<double>(policy_->num_waiting() - policy_->queue().num_requests());
  const double ahead = selected + policy_->backlog_ahead(slot).num_requests;
  const uint32_t blocks = 1 + config.num_beams * blocks_of(config.max_length - 1);
  const uint32_t enter = std::min((max_beams_ - running_.num_beams) / config.num_beams,
                                  (blocks_.num_blocks() - blocks_.num_reserved()) / blocks);
  return pace_ns_ * std::max(0.0, ahead + 1 - enter);
}

void GenerationExecutor::learn_pace(uint64_t start_ns) noexcept {
  if (last_step_ns_ != 0) busy_ns_ += static_cast<double>(start_ns - last_step_ns_);
  if (num_left_ > 0) {
    const double pace_ns = busy_ns_ / num_left_;
    const double share = pace_ns_ == 0 ? 1 : kPaceShare;
    pace_ns_ += share * (pace_ns - pace_ns_);
    busy_ns_ = 0;
    num_left_ = 0;
  }
  last_step_ns_ = running_.sequences.empty() ? 0 : start_ns;
}

// Assumes that beams share no blocks from the first token on. The last token is never fed.
uint32_t GenerationExecutor::blocks_needed(const request::Request& request,
                                           const model::GenerationConfig& config) const noexcept {
  return blocks_of(request.num_tokens) + config.num_beams * blocks_of(config.max_length - 1);
}

size_t GenerationExecutor::step(CompletionSink& sink, BatchFigures& figures) noexcept {
  figures = {};
  size_t refused = 0;
  if (has_results()) end_step(sink, figures);
  if (has_read_packets()) release_packets(sink);
  if (!in_flight_) {
    refused += begin_step(sink);
    // On a synchronous stream the step has already ended.
    if (figures.num_tokens == 0 && has_results()) end_step(sink, figures);
  }
  const size_t completed = refused + answer_ended(sink);
  figures.num_refused = static_cast<uint32_t>(completed) - figures.num_requests;
  return completed;
}

size_t GenerationExecutor::finish(CompletionSink& sink, BatchFigures& figures) noexcept {
  figures = {};
  if (in_flight_) end_step(sink, figures);
  const size_t completed = answer_ended(sink);
  figures.num_refused = static_cast<uint32_t>(completed) - figures.num_requests;
  return completed;
}

size_t GenerationExecutor::begin_step(CompletionSink& sink) noexcept {
  const uint64_t now_ns = clock_.now_ns();
  learn_pace(now_ns);
  expire(running_, now_ns);
  expire(next_, now_ns);
  choose_joined();
  plan::Planner& planner = planner_.take();
  admit(planner, now_ns);
  if (last_step_ns_ == 0 && !running_.sequences.empty()) last_step_ns_ = now_ns;
  // Refused requests are answered before the step: they have waited long enough.
  const size_t refused = admission_.complete_refused(sink);
  count_executing();
  if (running_.sequences.empty()) return refused;
  begin_ns_ = now_ns;
  figures_ = {};
  encode_entered(planner);
  layout_.build_step(running_.sequences, blocks_);
  const backbone::StepResult result = group_.launch_step(*stream_, layout_);
  const size_t found = size_t{layout_.num_beams()} * layout_.num_candidates();
  stream_->copy_to_host(result.log_probabilities, found * sizeof(float), log_probabilities_.data());
  stream_->copy_to_host(result.tokens, found * sizeof(int32_t), tokens_.data());
  event_ = stream_->record();
  in_flight_ = true;
  figures_.num_tokens += layout_.num_beams();
  figures_.num_rows += layout_.num_step_rows();
  for (size_t i = 0; i < running_.sequences.size(); ++i)
    figures_.num_tenants +=
        i == 0 || running_.sequences[i]->request->slot != running_.sequences[i - 1]->request->slot;
  return refused;
}

void GenerationExecutor::end_step(CompletionSink& sink, BatchFigures& figures) noexcept {
  const device::Stream::Completion completion = stream_->wait(event_);
  in_flight_ = false;
  release_packets(sink);
  figures = figures_;
  if (completion.status) {
    advance();
  } else if (const auto why = refusal_of(completion.status.error())) {
    fail_running(*why);
  } else {
    figures.device_failed = true;
    fail_all();
  }
  figures.execute_ns =
      completion.device_ns != 0 ? completion.device_ns : clock_.now_ns() - begin_ns_;
  figures.num_requests = num_left_ = static_cast<uint32_t>(ended_.size());
  count_executing();
}

// Also completes the requests refused since the last step.
size_t GenerationExecutor::answer_ended(CompletionSink& sink) noexcept {
  const size_t completed = admission_.complete_refused(sink) + ended_.size();
  answered_.clear();
  for (std::unique_ptr<Sequence>& sequence : ended_) {
    answer(*sequence);
    answered_.push_back(sequence->request);
    spare_.push_back(std::move(sequence));
  }
  if (!ended_.empty()) sink.complete(answered_);
  ended_.clear();
  return completed;
}

// Sequences run for many steps, but their packets are needed only until the source is encoded.
void GenerationExecutor::release_packets(CompletionSink& sink) noexcept {
  if (!encoded_.empty()) sink.release_packets(encoded_);
  encoded_.clear();
}

// Decides which batch the sequences join that enter with this step.
void GenerationExecutor::choose_joined() noexcept {
  const bool at_each_step = options_.generation.joining == Joining::kSteps;
  const bool begins = running_.sequences.empty();
  if (begins) std::swap(running_, next_);
  joined_ = at_each_step || begins ? &running_ : &next_;
  if (at_each_step || joined_->sequences.empty()) holds_.begin_batch();
}

void GenerationExecutor::count_executing() noexcept {
  num_executing_.store(static_cast<uint32_t>(running_.sequences.size() + next_.sequences.size()),
                       std::memory_order_relaxed);
}

// Admits requests while there is room, but none of other rows and slots than the first ones.
void GenerationExecutor::admit(const plan::Planner& planner, uint64_t now_ns) noexcept {
  if (device_failed()) return;
  source_rows_ = 0;
  for (;;) {
    policy_->choose(
        {.now_ns = now_ns, .start_ns = now_ns, .capacity = this, .rows = rows_of(planner)},
        choice_);
    const bool found_any = !choice_.batch.empty() || !choice_.refused.empty();
    admission_.refuse(choice_.refused);
    admission_.take(choice_.batch, [this](const request::Request& expired) { unreserve(expired); });
    for (request::Request* request : choice_.batch) enter(request, now_ns);
    const bool has_rows = choice_.has_rows || choice_.slot_tokens > 0;
    if (!found_any || (has_rows && !choice_.batch.empty())) return;
  }
}

bool GenerationExecutor::reserve(const request::Request& request) noexcept {
  const model::GenerationConfig& config = group_.model(request.slot)->head.spec.generation.front();
  if (source_rows_ + request.num_tokens > options_.limits.max_tokens ||
      joined_->num_beams + config.num_beams > max_beams_ ||
      !blocks_.reserve(blocks_needed(request, config)))
    return false;
  source_rows_ += request.num_tokens;
  joined_->num_beams += config.num_beams;
  return true;
}

void GenerationExecutor::unreserve(const request::Request& request) noexcept {
  const model::GenerationConfig& config = group_.model(request.slot)->head.spec.generation.front();
  source_rows_ -= request.num_tokens;
  joined_->num_beams -= config.num_beams;
  blocks_.unreserve(blocks_needed(request, config));
}

void GenerationExecutor::enter(request::Request* request, uint64_t now_ns) noexcept {
  const model::TenantModel& model = *group_.model(request->slot);
  const model::GenerationConfig& config = model.head.spec.generation.front();
  CHECK(!spare_.empty());  // at most max_beams_ sequences run, and as many have ended
  std::unique_ptr<Sequence> sequence = std::move(spare_.back());
  spare_.pop_back();
  sequence->request = request;
  sequence->prepared = admission_.inputs().made(*request);
  sequence->model = &model;
  sequence->search.reset(config);
  sequence->tables.assign(1, {});
  sequence->source_tokens = request->num_tokens;
  sequence->reserved_blocks = blocks_needed(*request, config);
  sequence->weight_order = group_.weight_order(sequence->model->weight_slot);
  sequence->entered = true;
  encoded_.push_back(request);
  request->chosen_ns = now_ns;
  const auto position = std::ranges::upper_bound(joined_->sequences, sequence->slots(), {},
                                                 [](const auto& other) { return other->slots(); });
  joined_->sequences.insert(position, std::move(sequence));
}

void GenerationExecutor::encode_entered(plan::Planner& planner) noexcept {
  entered_.clear();
  items_.begin(choice_);
  for (const std::unique_ptr<Sequence>& sequence : joined_->sequences) {
    if (!std::exchange(sequence->entered, false)) continue;
    entered_.push_back(sequence.get());
    items_.add(*sequence->request, sequence->model->weight_slot, sequence->weight_order);
  }
  if (entered_.empty()) return;
  items_.plan(planner, plan_);
  const uint64_t planned_ns = stamp();
  holds_.enter(entered_, plan_);
  for (const Sequence* sequence : entered_)
    sequence->request->planned_ns = sequence->request->launched_ns = planned_ns;
  figures_.num_tokens = static_cast<uint32_t>(plan_.num_tokens);
  for (const plan::Pass& pass : plan_.passes) {
    layout_.build_sources(entered_, plan_, pass, blocks_);
    figures_.num_rows += layout_.num_source_rows();
    group_.launch_sources(*stream_, layout_);
  }
}

void GenerationExecutor::advance() noexcept {
  const uint32_t stride = layout_.num_candidates();
  size_t row = 0;
  for (size_t i = 0; i < running_.sequences.size();) {
    Sequence& sequence = *running_.sequences[i];
    const uint32_t per_beam = sequence.config().candidates_per_beam();
    candidates_.clear();
    for (uint32_t beam = 0; beam < sequence.search.num_beams(); ++beam, ++row)
      for (uint32_t c = 0; c < per_beam; ++c)
        candidates_.push_back({log_probabilities_[row * stride + c], tokens_[row * stride + c]});
    sequence.search.advance(candidates_);
    if (!sequence.search.done()) {
      sequence.continue_beams(blocks_);
      ++i;
      continue;
    }
    ended_.push_back(leave(running_, i));
  }
}

// Removes the sequence at `index`, which gives back its beams, and its K/V blocks as Cleaning says.
std::unique_ptr<Sequence> GenerationExecutor::leave(Entered& from, size_t index) noexcept {
  std::unique_ptr<Sequence> sequence = std::move(from.sequences[index]);
  from.sequences.erase(from.sequences.begin() + static_cast<std::ptrdiff_t>(index));
  from.num_beams -= sequence->config().num_beams;
  holds_.leave(*sequence);
  return sequence;
}

void GenerationExecutor::answer(const Sequence& sequence) noexcept {
  request::Request* request = sequence.request;
  admission_.inputs().release(*request);
  write_result(*request, *sequence.model, sequence.search.result());
  request->done_ns = clock_.now_ns();
}

// Drops sequences past their deadline, freeing blocks for the rest.
void GenerationExecutor::expire(Entered& entered, uint64_t now_ns) noexcept {
  for (size_t i = 0; i < entered.sequences.size();) {
    request::Request* request = entered.sequences[i]->request;
    if (!sched::deadline_passed(*request, now_ns)) {
      ++i;
      continue;
    }
    spare_.push_back(leave(entered, i));
    admission_.refuse(request, {StatusCode::kDeadlineLaunch,
                                "the deadline passed while the sequence was generated"});
  }
}

void GenerationExecutor::fail_running(const Refusal& why) noexcept {
  for (Entered* entered : {&running_, &next_})
    while (!entered->sequences.empty()) {
      request::Request* request = entered->sequences.back()->request;
      spare_.push_back(leave(*entered, entered->sequences.size() - 1));
      admission_.refuse(request, why);
    }
  count_executing();
}

void GenerationExecutor::fail_all() noexcept {
  fail_running(kDeviceFailure);
  admission_.fail_device();
}

}  // namespace itif::runtime
