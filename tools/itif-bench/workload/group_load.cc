#include "workload/group_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "workload/encoder_setup.h"

namespace itif::bench {
namespace {

// Rows of other requests in a batch change the order of sums.
constexpr double kLeastCosine = 0.999;

}  // namespace

GroupLoad::GroupLoad(uint16_t number, const Questions& questions, const Answers* expected,
                     pipeline::GroupInbox& inbox, const LoadOptions& options)
    : number_(number),
      questions_(questions),
      expected_(expected),
      inbox_(inbox),
      options_(options),
      requests_(options.in_flight),
      random_(number + 1),
      answers_(Questions::kNumber) {
  for (uint32_t i = options.in_flight; i-- > 0;) free_.push_back(i);
  if (options.copies_payload)
    for (Slot& slot : requests_) slot.copy.resize(questions.payload_bytes());
}

GroupLoad::~GroupLoad() {
  CHECK(num_in_flight() == 0);
}

void GroupLoad::set_active(bool active, uint64_t now_ns) {
  is_active_ = active;
  next_arrival_ns_ = now_ns;
}

uint64_t GroupLoad::send(uint64_t now_ns) {
  if (!is_active_) return UINT64_MAX;
  if (options_.rate == 0) {
    while (!free_.empty()) push(now_ns);
    return UINT64_MAX;
  }
  while (next_arrival_ns_ <= now_ns) {
    if (free_.empty())
      ++figures_.unanswered;
    else
      push(next_arrival_ns_);
    next_arrival_ns_ += static_cast<uint64_t>(random_.exponential() / options_.rate * 1e9);
  }
  return next_arrival_ns_;
}

void GroupLoad::push(uint64_t now_ns) {
  const uint32_t at = free_.back();
  free_.pop_back();
  Slot& slot = requests_[at];
  const uint32_t question = next_question_++ % Questions::kNumber;
  slot.request = {};
  slot.request.request_id = at;
  slot.request.session = question;
  slot.request.group = number_;
  slot.request.payload_kind = questions_.kind();
  slot.request.payload_bytes = questions_.payload_bytes();
  slot.request.pieces = questions_.pieces(question);
  slot.request.settings.slo_ns = options_.slo_ns;
  slot.request.arrival_ns = slot.request.complete_ns = now_ns;
  if (options_.copies_payload) {
    std::byte* to = slot.copy.data();
    for (const request::Piece& piece : slot.request.pieces) {
      std::memcpy(to, piece.data, piece.bytes);
      to += piece.bytes;
    }
    slot.copied = {slot.copy.data(), questions_.payload_bytes()};
    slot.request.pieces = {&slot.copied, 1};
  }
  ++figures_.sent;
  ++period_.sent;
  inbox_.push(&slot.request);
}

void GroupLoad::take_back(request::Request& request, uint64_t now_ns) {
  if (request.status == wire::StatusCode::kOk) {
    note_answer(request, now_ns);
    keep_answer(request);
  } else {
    ++figures_.unanswered;
    if (difference_.empty()) difference_ = fmt::format("a request was refused: {}", request.detail);
  }
  std::free(request.result.data);
  request.result = {};
  free_.push_back(static_cast<uint32_t>(request.request_id));
}

void GroupLoad::note_answer(const request::Request& request, uint64_t now_ns) {
  const uint64_t latency_ns = now_ns - request.arrival_ns;
  ++figures_.answered;
  figures_.late += options_.slo_ns != 0 && latency_ns > options_.slo_ns;
  figures_.execute_ns += request.done_ns - request.chosen_ns;
  figures_.latency_ns.record(latency_ns);
  ++period_.answered;
  period_.latency_ns += latency_ns;
  note_batch(request);
}

// The requests of a batch begin at the same time, and return one after another.
void GroupLoad::note_batch(const request::Request& request) {
  if (batches_.empty() || batches_.back().begun_ns != request.chosen_ns) {
    batches_.push_back({.begun_ns = request.chosen_ns, .done_ns = request.done_ns});
    ++period_.batches;
  }
  ++batches_.back().num_requests;
}

void GroupLoad::keep_answer(const request::Request& request) {
  const uint32_t question = request.session;
  std::vector<float>& answer = answers_[question];
  if (!answer.empty()) return;
  answer.resize(request.result.bytes / sizeof(float));
  if (!answer.empty()) std::memcpy(answer.data(), request.result.data, request.result.bytes);
  if (expected_ == nullptr) return;
  const std::vector<float>& alone = (*expected_)[question];
  const double similarity = answer.empty() || answer.size() != alone.size()
                                ? 0
                                : cosine(answer.data(), alone.data(), alone.size());
  if (!(similarity >= kLeastCosine) && difference_.empty())
    difference_ =
        fmt::format("the answer to request {} differs from the group's answer alone, cosine {:.4f}",
                    question, similarity);
}

bool GroupLoad::all_answered() const {
  return std::ranges::none_of(answers_, [](const auto& answer) { return answer.empty(); });
}

void GroupLoad::end_interval(double seconds, double share_percent) {
  const auto rate = [&](uint64_t count) { return static_cast<double>(count) / seconds; };
  const auto mean = [](uint64_t sum, uint64_t count) {
    return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
  };
  intervals_.push_back({.share_percent = share_percent,
                        .sent_per_s = rate(period_.sent),
                        .answered_per_s = rate(period_.answered),
                        .mean_ms = mean(period_.latency_ns, period_.answered) / 1e6,
                        .batch_requests = mean(period_.answered, period_.batches)});
  period_ = {};
}

}  // namespace itif::bench
