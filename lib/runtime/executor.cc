#include "runtime/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "wire/payload.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

constexpr size_t kTextBytesPerToken = 32;  // longer texts make text_ grow once

// The pixels where they arrived, or resized.
kernels::ImagePixels image_of(const request::Request& request, const PreparedText* resized) {
  if (resized) return {.pieces = {&resized->pixels_piece, 1}};
  const bool is_f32 = request.payload_kind == wire::PayloadKind::kImageF32;
  return {.pieces = request.pieces,
          .skip_bytes = sizeof(wire::ImagePrefix),
          .value_bytes = static_cast<uint8_t>(is_f32 ? 4 : 1)};
}

}  // namespace

Result<std::unique_ptr<GroupExecutor>> GroupExecutor::create(Group& group, device::Stream& stream,
                                                             const Clock& clock,
                                                             const ExecutorOptions& options) {
  ITIF_ASSIGN(auto scheduler, sched::make_scheduler(options.scheduler));
  ITIF_ASSIGN(auto planner, plan::make_planner(options.planner, {.limits = plan_limits(options)}));
  return std::unique_ptr<GroupExecutor>(
      new GroupExecutor(group, stream, clock, options, std::move(scheduler), std::move(planner)));
}

GroupExecutor::GroupExecutor(Group& group, device::Stream& stream, const Clock& clock,
                             const ExecutorOptions& options,
                             std::unique_ptr<sched::Scheduler> scheduler,
                             std::unique_ptr<plan::Planner> planner)
    : group_(group),
      stream_(stream),
      clock_(clock),
      options_(options),
      scheduler_(std::move(scheduler)),
      planner_(std::move(planner)),
      queue_(options.queue),
      preparation_({.max_tokens = options.limits.max_tokens,
                    .image = group.spec().image,
                    .text_bytes = size_t{options.limits.max_tokens} * kTextBytesPerToken}),
      bound_(options.limits.max_tokens),
      urgent_(options.queue.max_slots),
      last_batch_(options.queue.max_slots) {
  const size_t max_requests = options.limits.max_requests;
  batch_.reserve(max_requests);
  ordered_.reserve(max_requests);
  items_.reserve(max_requests);
  plan_.reserve(max_requests);
  segments_.reserve(max_requests);
  refused_.reserve(size_t{options.queue.max_requests} + kMaxIntake);
  // A piece is at least kMinFragmentBytes of ids; a request's last one may be shorter.
  pieces_.reserve(max_requests + size_t{options.limits.max_tokens} * 4 / wire::kMinFragmentBytes);
}

GroupExecutor::~GroupExecutor() {
  delete next_planner_.load();
}

void GroupExecutor::set_planner(std::unique_ptr<plan::Planner> planner) noexcept {
  delete next_planner_.exchange(planner.release(), std::memory_order_acq_rel);
}

void GroupExecutor::refuse(request::Request* request, wire::StatusCode status,
                           const char* detail) noexcept {
  preparation_.release(*request);
  request->status = status;
  request->detail = detail;
  request->done_ns = clock_.now_ns();
  refused_.push_back(request);
}

void GroupExecutor::submit(request::Request* request) noexcept {
  request->prepared = 0;
  if (device_failed_) {
    refuse(request, StatusCode::kDeviceFailed, "the group's device has failed");
    return;
  }
  // Before the text is looked at: a tenant that floods must not cost the others' executor more than
  // this.
  const double wait_ns = expected_wait_ns(request->slot);
  const bool too_long =
      options_.max_wait_ns != 0 && wait_ns > static_cast<double>(options_.max_wait_ns);
  if (too_long || !queue_.has_room(request->slot)) {
    // By then the backlog is expected to have halved.
    request->retry_after_us = static_cast<uint32_t>(std::clamp(wait_ns / 2000, 1000.0, 10e6));
    refuse(request, StatusCode::kOverloaded,
           too_long ? "the tenant's requests wait longer than the group allows"
                    : "the group's queue, or the tenant's share of it, is full");
    return;
  }
  const model::TenantModel* model = group_.model(request->slot);
  if (model == nullptr)
    return refuse(request, StatusCode::kNotAdmitted, "the tenant's model is not loaded");
  if (const Refusal why = preparation_.prepare(*request, *model)) return refuse(request, why);
  const auto alone_ns = floor_.batch_ns(request->num_tokens);
  CHECK(queue_.push(request, clock_.now_ns(), alone_ns));
}

// What stands in the tenant's lane, at the pace of late, while every other lane takes its turns.
double GroupExecutor::expected_wait_ns(uint32_t slot) noexcept {
  const sched::GroupQueue::Lane& lane = queue_.lane(slot);
  const auto lanes = static_cast<double>(std::max<size_t>(1, queue_.active_slots().size()));
  const double tokens = std::min(static_cast<double>(lane.num_tokens) * lanes,
                                 static_cast<double>(queue_.num_tokens()));
  const double requests =
      std::min(lane.num_requests * lanes, static_cast<double>(queue_.num_requests()));
  return cost_.backlog_ns(tokens, requests / options_.limits.max_requests,
                          options_.limits.max_tokens);
}

size_t GroupExecutor::step(CompletionSink& sink, BatchFigures& figures) noexcept {
  figures = {};
  size_t completed = 0;
  if (queue_.num_requests() > 0) {
    uint64_t now_ns = clock_.now_ns();
    const auto objectives = sched::set_objectives(queue_, now_ns, scheduler_->isolates());
    choose_batch(now_ns, objectives);
    expire(batch_, now_ns);
    if (group_.spec().takes_images()) resize_images(batch_);
    // Before the batch: they have waited long enough.
    completed += complete_refused(sink);
    if (!batch_.empty()) {
      plan_batch(now_ns, figures);
      run_batch(sink, figures);
      figures.execute_ns = clock_.now_ns() - now_ns;
      completed += figures.num_requests;
      if (!device_failed_) {
        cost_.add(figures.num_tokens, figures.execute_ns);
        floor_.add(figures.num_tokens, figures.execute_ns);
        bound_.ran(figures.num_tokens, figures.execute_ns, objectives.slo_ns);
      }
    }
  }
  if (device_failed_) {
    while (queue_.num_requests() > 0)
      refuse(queue_.pop(queue_.active_slots().front()), StatusCode::kDeviceFailed,
             "the group's device has failed");
  }
  return completed + complete_refused(sink);
}

void GroupExecutor::choose_batch(uint64_t now_ns, const sched::Objectives& objectives) noexcept {
  batch_.clear();
  sched::BatchLimits limits{.max_tokens = bound_.tokens(objectives.slo_ns),
                            .max_requests = options_.limits.max_requests};
  if (objectives.batch_ns != 0)
    limits.max_tokens = std::min(limits.max_tokens, floor_.tokens_within(objectives.batch_ns));
  const uint64_t time_ns = urgent_.select(queue_, limits, now_ns, batch_);
  if (!batch_.empty())
    limits.max_tokens = std::min(limits.max_tokens, cost_.tokens_within(time_ns));
  if (batch_.empty() || sched::room(limits, batch_) > 0)
    scheduler_->select(queue_, limits, now_ns, batch_);
  urgent_.chosen(queue_, batch_);
}

size_t GroupExecutor::complete_refused(CompletionSink& sink) noexcept {
  const size_t count = refused_.size();
  if (count > 0) sink.complete(refused_);
  refused_.clear();
  return count;
}

// A request whose deadline has passed, or will have before a batch of it alone could end, is not run.
void GroupExecutor::expire(std::vector<request::Request*>& batch, uint64_t now_ns) noexcept {
  bool by_estimate = false;
  std::erase_if(batch, [&](request::Request* request) {
    if (request->deadline_ns == 0) return false;
    if (request->deadline_ns <= now_ns) {
      refuse(request, StatusCode::kDeadlineQueue, "the deadline passed in the group's queue");
      return true;
    }
    if (static_cast<double>(request->deadline_ns - now_ns) < cost_.batch_ns(request->num_tokens)) {
      by_estimate = true;
      refuse(request, StatusCode::kDeadlineLaunch,
             "the deadline would pass before the request could be computed");
      return true;
    }
    return false;
  });
  if (by_estimate && batch.empty()) cost_.distrust();
}

void GroupExecutor::resize_images(std::vector<request::Request*>& batch) noexcept {
  std::erase_if(batch, [&](request::Request* request) {
    const Refusal why = preparation_.resize(*request, *group_.model(request->slot));
    if (why) refuse(request, why);
    return static_cast<bool>(why);
  });
}

void GroupExecutor::plan_batch(uint64_t now_ns, BatchFigures& figures) noexcept {
  items_.clear();
  ++batch_number_;
  for (const request::Request* request : batch_) {
    items_.push_back({request->slot, request->num_tokens});
    figures.num_tenants +=
        std::exchange(last_batch_[request->slot], batch_number_) != batch_number_;
  }
  if (plan::Planner* next = next_planner_.exchange(nullptr, std::memory_order_acq_rel))
    planner_.reset(next);
  planner_->plan(items_, plan_);
  figures.num_requests = static_cast<uint32_t>(batch_.size());
  figures.num_tokens = static_cast<uint32_t>(plan_.num_tokens);
  figures.num_rows = static_cast<uint32_t>(plan_.num_rows);
  ordered_.clear();
  segments_.clear();
  pieces_.clear();
  for (uint32_t mini_batch = 0; mini_batch < plan_.mini_batches.size(); ++mini_batch)
    for (uint32_t i = 0; i < plan_.mini_batches[mini_batch].num_segments; ++i)
      add_segment(plan_.segments[segments_.size()], mini_batch, now_ns);
}

void GroupExecutor::add_segment(const plan::Segment& place, uint32_t mini_batch,
                                uint64_t now_ns) noexcept {
  request::Request* request = batch_[place.item];
  request->launch_ns = now_ns;
  ordered_.push_back(request);
  Segment& segment = segments_.emplace_back();
  segment.slot = request->slot;
  segment.num_tokens = request->num_tokens;
  segment.num_rows = place.num_rows;
  segment.mini_batch = mini_batch;
  segment.kind = request->result_kind;
  const size_t first_piece = pieces_.size();
  const PreparedText* text = preparation_.made(*request);
  if (text) segment.token_types = text->token_types;
  if (group_.spec().takes_images()) {
    segment.image = image_of(*request, text);
    return;
  }
  if (text && !text->ids.empty()) {
    pieces_.push_back(
        {reinterpret_cast<const std::byte*>(text->ids.data()), request->num_tokens, 0, 4});
  } else {
    const uint8_t id_bytes = request->payload_kind == wire::PayloadKind::kTokensU32 ? 4 : 2;
    uint32_t row = 0;
    for (const request::Piece& piece : request->pieces) {
      const uint32_t num_ids = piece.bytes / id_bytes;
      pieces_.push_back({piece.data, num_ids, row, id_bytes});
      row += num_ids;
    }
  }
  // pieces_ was reserved for the largest batch, so earlier spans stay valid.
  segment.pieces = std::span(pieces_).subspan(first_piece);
}

// Pass by pass; who rode in an early one does not wait for the others.
void GroupExecutor::run_batch(CompletionSink& sink, BatchFigures& figures) noexcept {
  num_executing_.store(static_cast<uint32_t>(segments_.size()), std::memory_order_relaxed);
  for (const plan::Pass& pass : plan_.passes) {
    Batch batch{std::span(segments_).subspan(pass.first_segment, pass.num_segments)};
    if (!group_.forward(stream_, batch)) device_failed_ = figures.device_failed = true;
    finish_pass(pass);
    num_executing_.fetch_sub(pass.num_segments, std::memory_order_relaxed);
    sink.complete(std::span(ordered_).subspan(pass.first_segment, pass.num_segments));
  }
}

void GroupExecutor::finish_pass(const plan::Pass& pass) noexcept {
  const uint64_t done_ns = clock_.now_ns();
  for (uint32_t i = pass.first_segment; i < pass.first_segment + pass.num_segments; ++i) {
    request::Request* request = ordered_[i];
    const Segment& segment = segments_[i];
    request->status = segment.status;
    request->detail = segment.detail;
    request->result = segment.result;
    request->result_kind_out = segment.kind_out;
    request->result_rows = segment.result_rows;
    request->done_ns = done_ns;
    preparation_.release(*request);
  }
}

}  // namespace itif::runtime
