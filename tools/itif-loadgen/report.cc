// The live line and the table.
#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace itif::loadgen {
namespace {

std::string row(const std::string& name, size_t name_width, const TargetResults& r,
                double seconds) {
  return fmt::format("{:<{}} {:>10} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9} {:>12.1f}\n", name,
                     name_width, r.sent, r.answered, r.lost, r.refused, time_cell(r.latency_ns, 50),
                     time_cell(r.latency_ns, 99), time_cell(r.latency_ns, 99.9),
                     seconds > 0 ? static_cast<double>(r.answered) / seconds : 0.0);
}

// Datagrams that went or came more than once, and those that were of no use for another reason.
std::string repeats(const Results& results) {
  const client::EngineStats& engine = results.engine;
  std::string text;
  if (results.sent_again > 0)
    text += fmt::format(
        "sent again: {} requests (after silence {} times, after busy {} times, with a new address "
        "token {} times; the server answered busy {} times)\n",
        results.sent_again, engine.silence_repeats, engine.busy_repeats, engine.token_refusals,
        engine.busy);
  std::string twice, others;
  for (size_t i = 0; i < client::kNumDrops; ++i) {
    if (engine.dropped[i] == 0) continue;
    const auto drop = static_cast<client::Drop>(i);
    const bool is_repeat = drop == client::Drop::kLate || drop == client::Drop::kDuplicate ||
                           drop == client::Drop::kReplayed;
    (is_repeat ? twice : others) +=
        fmt::format(" {} {}", client::drop_name(drop), engine.dropped[i]);
  }
  if (!twice.empty()) text += fmt::format("answers received again:{}\n", twice);
  if (!others.empty()) text += fmt::format("datagrams dropped here:{}\n", others);
  return text;
}

}  // namespace

std::string time_cell(const Histogram& histogram, double percent) {
  return histogram.count() == 0 ? "-" : format_duration_ns(histogram.percentile(percent));
}

std::string live_line(double elapsed_s, double interval_s, const LiveCounts& before,
                      const LiveCounts& now, const Histogram& interval) {
  const auto per_second = [&](uint64_t a, uint64_t b) {
    return interval_s > 0 ? static_cast<double>(b - a) / interval_s : 0.0;
  };
  return fmt::format(
      "{:6.1f} s  {:8.0f} sent/s  {:8.0f} answered/s  lost {}  refused {}  in flight {}  p50 {}  "
      "p99 {}{}",
      elapsed_s, per_second(before.sent, now.sent), per_second(before.answered, now.answered),
      now.lost, now.refused, now.in_flight, time_cell(interval, 50), time_cell(interval, 99),
      now.warming_up ? "  (warm-up)" : "");
}

std::string table(const Options& options, const Results& results) {
  size_t width = 6;
  for (const Target& target : options.targets) width = std::max(width, target.name.size());
  const double seconds = static_cast<double>(results.measured_ns) / 1e9;
  std::string text =
      fmt::format("{:<{}} {:>10} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9} {:>12}\n", "tenant", width,
                  "sent", "answered", "lost", "refused", "p50", "p99", "p99.9", "requests/s");
  for (size_t i = 0; i < options.targets.size(); ++i)
    text += row(options.targets[i].name, width, results.targets[i], seconds);
  const TargetResults total = results.total();
  text += row("total", width, total, seconds);

  if (total.refused > 0) {
    text += "refused:";
    for (size_t i = 0; i < total.refused_by.size(); ++i) {
      if (total.refused_by[i] > 0)
        text += fmt::format(" {} {}", wire::status_name(static_cast<wire::StatusCode>(i)),
                            total.refused_by[i]);
    }
    text += '\n';
  }
  if (options.deadlines.kind != Deadlines::Kind::kNone && total.sent > 0) {
    text +=
        fmt::format("in time: {} of {} sent ({:.1f} %), {:.1f}/s", total.in_time, total.sent,
                    100.0 * static_cast<double>(total.in_time) / static_cast<double>(total.sent),
                    seconds > 0 ? static_cast<double>(total.in_time) / seconds : 0.0);
    text += options.has_lengths() ? fmt::format("; utility {:.3f}\n", total.utility) : "\n";
  }
  if (results.refusal_delay_ns.count() > 0)
    text += fmt::format("refused at the deadline: {}; received after it by: p50 {}, p99 {}\n",
                        results.refusal_delay_ns.count(), time_cell(results.refusal_delay_ns, 50),
                        time_cell(results.refusal_delay_ns, 99));
  if (results.unsent > 0)
    text += fmt::format(
        "not sent: {} requests were due while {} were in flight per thread: lower --rate or raise "
        "--max-in-flight\n",
        results.unsent, options.max_in_flight);
  if (results.dropped_here > 0)
    text += fmt::format("dropped here: {} datagrams found this program's receive buffers full\n",
                        results.dropped_here);
  text += repeats(results);
  if (total.answered > 0)
    text += fmt::format("in the server: p50 {}, p99 {}; sent late by: p50 {}, p99 {}\n",
                        time_cell(results.server_ns, 50), time_cell(results.server_ns, 99),
                        time_cell(results.lateness_ns, 50), time_cell(results.lateness_ns, 99));
  return text;
}

bool all_answered(const Results& results) {
  const TargetResults total = results.total();
  return total.sent > 0 && total.answered == total.sent && results.unsent == 0;
}

LivePrinter::LivePrinter(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {}

void LivePrinter::print(const std::string& line) {
  std::fputs(terminal_ ? "\r\x1b[K" : "", out_);
  std::fputs(line.c_str(), out_);
  if (!terminal_) std::fputc('\n', out_);
  std::fflush(out_);
  open_ = terminal_;
}

void LivePrinter::finish() {
  if (std::exchange(open_, false)) std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace itif::loadgen
