// Parses and checks the options of searches and sweeps.
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "options.h"

namespace itif::loadgen {
namespace {

constexpr double kHighestRate = 1e9;
constexpr uint32_t kMostSteps = 1000;

std::unexpected<Error> refused(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message));
}

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<Sweep> parse_sweep(const std::string& text) {
  const std::string_view all(text);
  const size_t first = all.find(':');
  const size_t second = first == all.npos ? all.npos : all.find(':', first + 1);
  Sweep sweep;
  if (second != all.npos && read_number(all.substr(0, first), sweep.from) &&
      read_number(all.substr(first + 1, second - first - 1), sweep.to) &&
      read_number(all.substr(second + 1), sweep.steps) && sweep.from > 0 && sweep.to > sweep.from &&
      sweep.to <= kHighestRate && sweep.steps >= 2 && sweep.steps <= kMostSteps)
    return sweep;
  return refused(fmt::format(
      "--sweep {}: must be FROM:TO:STEPS, as in 100:1000:10: two rates above 0 in rising order, "
      "and 2 to {} steps",
      text, kMostSteps));
}

Result<Goal> parse_pdr(const std::string& text) {
  double percent = 0;
  if (!read_number(text, percent) || !(percent > 0) || !(percent < 100))
    return refused(fmt::format(
        "--pdr {}: must be the percentage that may be lost, above 0 and below 100", text));
  return Goal{.name = fmt::format("PDR {:g} %", percent), .loss_percent = percent};
}

Status check_trials(const Options& o) {
  const bool searches = !o.goals.empty(), sweeps = o.sweep.steps > 0;
  if (!o.plot_file.empty()) {
    if (!sweeps) return refused("--plot needs --sweep");
    const std::string name = o.plot_file.substr(o.plot_file.rfind('/') + 1);
    if (!name.ends_with(".svg") || name == ".svg")
      return refused(fmt::format("--plot {}: must name a file that ends with .svg", o.plot_file));
  }
  if (!searches && !sweeps) return {};
  const char* const option = sweeps ? "--sweep" : o.goals[0].loss_percent == 0 ? "--ndr" : "--pdr";
  if (searches && sweeps) return refused("--sweep excludes --ndr and --pdr: run them one by one");
  if (o.arrivals == Arrivals::kClosed)
    return refused(
        fmt::format("{} and --concurrency exclude each other: it sets the rate", option));
  if (o.flood) return refused(fmt::format("{} and --flood exclude each other", option));
  if (o.null_sink)
    return refused(fmt::format("{} and --null-sink exclude each other: nothing answers", option));
  if (o.max_requests > 0)
    return refused(
        fmt::format("{} and --requests exclude each other: --duration ends its trials", option));
  if (searches && o.rate_given &&
      o.rate * static_cast<double>(o.duration_ns) < kFewestRequests * 1e9)
    return refused(fmt::format("{}: --rate and --duration allow less than {:g} requests in a trial",
                               option, kFewestRequests));
  if (sweeps && o.rate_given) return refused("--sweep names its rates: drop --rate");
  if (!(o.precision_percent >= 0.01 && o.precision_percent <= 50))
    return refused("--precision: must be from 0.01 to 50, in percent of the rate");
  if (o.repeats == 0 || o.repeats > 1000) return refused("--repeats: must be from 1 to 1000");
  return {};
}

}  // namespace itif::loadgen
