#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <numbers>
#include <sstream>
#include <string>

namespace itif::sim {
namespace {

constexpr double kMaxTraceSeconds = 30 * 86400.0, kMaxDeadlineMs = 3.6e6;
constexpr int kMaxTries = 10'000;  // to draw a length within the bounds

// Calls line(text, number) for each line that is not empty, without comments.
Status read_lines(const std::string& path, auto&& line) {
  std::ifstream file(path);
  if (!file)
    return fail(Code::kNotFound, fmt::format("{}: cannot be read: {}", path, errno_text(errno)));
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    text = text.substr(0, text.find('#'));
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    ITIF_TRY(line(text, number));
  }
  return {};
}

}  // namespace

Workload::Workload(const GroupScenario& group, uint64_t duration_ns, uint32_t max_tokens,
                   uint64_t seed, uint32_t max_output)
    : arrivals_(group.arrivals),
      lengths_(group.lengths),
      output_(group.output),
      deadlines_(group.deadlines),
      duration_ns_(static_cast<double>(duration_ns)),
      max_tokens_(max_tokens),
      max_output_(max_output),
      random_(seed) {
  double sum = 0;
  for (const TenantChoice& tenant : group.tenants) shares_.push_back(sum += tenant.share);
}

Result<Workload> Workload::make(const GroupScenario& group, uint64_t duration_ns,
                                uint32_t max_tokens, uint64_t seed, uint32_t max_output) {
  Workload workload(group, duration_ns, max_tokens, seed, max_output);
  if (group.lengths.kind == LengthKind::kFile)
    ITIF_TRY(read_lengths(group.lengths.file, workload.file_lengths_));
  if (group.output.kind == OutputKind::kFile)
    ITIF_TRY(read_lengths(group.output.file, workload.file_outputs_));
  if (group.arrivals.kind == ArrivalKind::kTrace)
    ITIF_TRY(workload.read_trace(group.arrivals.trace));
  workload.advance();
  return workload;
}

Status Workload::read_lengths(const std::string& path, std::vector<uint32_t>& lengths) {
  ITIF_TRY(read_lines(path, [&](const std::string& text, int number) -> Status {
    std::istringstream in(text);
    long long tokens = 0;
    std::string rest;
    if (!(in >> tokens) || tokens < 1 || tokens > UINT32_MAX || in >> rest)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}:{}: expected one number of tokens from 1 on", path, number));
    lengths.push_back(static_cast<uint32_t>(tokens));
    return {};
  }));
  if (lengths.empty()) return fail(Code::kInvalidArgument, fmt::format("{}: has no lengths", path));
  return {};
}

Status Workload::read_trace(const std::string& path) {
  double last_s = 0;
  ITIF_TRY(read_lines(path, [&](const std::string& text, int number) -> Status {
    const auto refuse = [&](const char* what) {
      return fail(Code::kInvalidArgument, fmt::format("{}:{}: {}", path, number, what));
    };
    std::istringstream in(text);
    TraceLine line;
    long long tokens = 0;
    std::string rest;
    if (!(in >> line.seconds >> tokens)) return refuse("expected: seconds tokens [tenant [ms]]");
    if (!(line.seconds >= last_s)) return refuse("times must not decrease");
    if (!(line.seconds <= kMaxTraceSeconds)) return refuse("a trace has at most 30 days");
    if (tokens < 1 || tokens > UINT32_MAX) return refuse("a request has at least one token");
    if (!(in >> line.tenant)) {
      line.tenant = -1;
    } else if (line.tenant < 0 || line.tenant >= static_cast<int64_t>(shares_.size())) {
      return refuse("the scenario has no such tenant");
    } else if (!(in >> line.deadline_ms)) {
      line.deadline_ms = -1;
    } else if (!(line.deadline_ms > 0 && line.deadline_ms <= kMaxDeadlineMs)) {
      return refuse("a deadline is above 0 and at most an hour, in ms");
    }
    in.clear();
    if (in >> rest) return refuse("more fields than: seconds tokens tenant ms");
    line.num_tokens = static_cast<uint32_t>(tokens);
    last_s = line.seconds;
    trace_.push_back(line);
    return {};
  }));
  if (trace_.empty()) return fail(Code::kInvalidArgument, fmt::format("{}: has no requests", path));
  return {};
}

std::optional<Draw> Workload::next() {
  Draw draw;
  const TraceLine* line = nullptr;
  if (arrivals_.kind == ArrivalKind::kTrace) {
    if (next_line_ == trace_.size()) return std::nullopt;
    line = &trace_[next_line_++];
    draw.arrival_ns = static_cast<uint64_t>(line->seconds * 1e9);
  } else if (arrivals_.kind != ArrivalKind::kClosed) {
    if (at_ns_ >= duration_ns_) return std::nullopt;
    draw.arrival_ns = static_cast<uint64_t>(at_ns_);
    advance();
  }
  draw.tenant = line && line->tenant >= 0 ? static_cast<uint32_t>(line->tenant) : draw_tenant();
  draw.num_tokens =
      std::min(line ? line->num_tokens : draw_length(lengths_, file_lengths_), max_tokens_);
  draw.deadline_ns = line && line->deadline_ms >= 0 ? static_cast<uint64_t>(line->deadline_ms * 1e6)
                                                    : draw_deadline(draw.num_tokens);
  if (max_output_ > 0) draw.num_output = std::min(draw_output(draw.num_tokens), max_output_);
  return draw;
}

// Moves at_ns_ to the next arrival.
void Workload::advance() {
  const double gap_ns = 1e9 / arrivals_.rate;
  switch (arrivals_.kind) {
    case ArrivalKind::kTrace:
    case ArrivalKind::kClosed: return;
    case ArrivalKind::kConstant: at_ns_ += gap_ns; return;
    case ArrivalKind::kPoisson: at_ns_ += random_.exponential() * gap_ns; return;
    case ArrivalKind::kDiurnal: {
      // Thinning (Lewis and Shedler, 1979): candidates at the highest rate, kept in proportion.
      const double most = 1 + arrivals_.amplitude;
      double kept = 0;
      do {
        at_ns_ += random_.exponential() * gap_ns / most;
        kept = 1 + arrivals_.amplitude * std::sin(2 * std::numbers::pi * at_ns_ /
                                                  static_cast<double>(arrivals_.period_ns));
      } while (random_.uniform() * most >= kept);
      return;
    }
    case ArrivalKind::kBursty: {
      const double share = arrivals_.burst_share, factor = arrivals_.burst_factor;
      const double mean_burst_ns = static_cast<double>(arrivals_.burst_ns);
      const double calm = share < 1 ? (1 - factor * share) / (1 - share) : 0;
      for (;;) {
        const double rate = in_burst_ ? factor : calm;
        const double next_ns = rate > 0 ? at_ns_ + random_.exponential() * gap_ns / rate : INFINITY;
        if (next_ns < phase_end_ns_) {
          at_ns_ = next_ns;
          return;
        }
        // Arrivals have no memory: one past the phase's end is drawn again for the next phase.
        at_ns_ = phase_end_ns_;
        in_burst_ = share >= 1 || !in_burst_;
        phase_end_ns_ += random_.exponential() *
                         (in_burst_ ? mean_burst_ns : mean_burst_ns * (1 - share) / share);
        if (at_ns_ >= duration_ns_) return;
      }
    }
  }
}

uint32_t Workload::draw_tenant() {
  const double at = random_.uniform() * shares_.back();
  const auto found = std::ranges::upper_bound(shares_, at);
  return static_cast<uint32_t>(std::min<size_t>(found - shares_.begin(), shares_.size() - 1));
}

uint32_t Workload::draw_length(const Lengths& lengths, const std::vector<uint32_t>& file) {
  switch (lengths.kind) {
    case LengthKind::kFile: return file[random_.below(file.size())];
    case LengthKind::kUniform:
      return lengths.from + static_cast<uint32_t>(random_.below(lengths.to - lengths.from + 1));
    case LengthKind::kNormal: {
      const double deviation = std::sqrt(lengths.variance);
      for (int i = 0; i < kMaxTries; ++i) {
        const double length = std::round(lengths.mean + deviation * random_.normal());
        if (length >= lengths.from && length <= lengths.to) return static_cast<uint32_t>(length);
      }
      return static_cast<uint32_t>(lengths.mean);
    }
  }
  return 1;
}

uint32_t Workload::draw_output(uint32_t num_tokens) {
  Lengths lengths = {.kind = LengthKind::kUniform,
                     .from = output_.from,
                     .to = output_.to,
                     .mean = output_.mean,
                     .variance = output_.variance};
  switch (output_.kind) {
    case OutputKind::kAsSource: return num_tokens;
    case OutputKind::kFixed: return output_.from;
    case OutputKind::kUniform: break;
    case OutputKind::kNormal: lengths.kind = LengthKind::kNormal; break;
    case OutputKind::kFile: lengths.kind = LengthKind::kFile; break;
  }
  return draw_length(lengths, file_outputs_);
}

uint64_t Workload::draw_deadline(uint32_t num_tokens) {
  switch (deadlines_.kind) {
    case DeadlineKind::kNone: return 0;
    case DeadlineKind::kFixed: return deadlines_.from_ns;
    case DeadlineKind::kUniform:
      return deadlines_.from_ns + random_.below(deadlines_.to_ns - deadlines_.from_ns + 1);
    case DeadlineKind::kByLength: return deadlines_.from_ns + num_tokens * deadlines_.token_ns;
  }
  return 0;
}

}  // namespace itif::sim
