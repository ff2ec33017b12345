#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace itif::ctl {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

ProgressDisplay::ProgressDisplay(bool wanted)
    : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressDisplay::~ProgressDisplay() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void ProgressDisplay::show(const std::string& stage, double fraction) {
  if (!wanted_) return;
  const double clamped = std::clamp(fraction, 0.0, 1.0);
  if (terminal_) {
    const int filled = static_cast<int>(clamped * kBarWidth);
    fmt::print(stderr, "\r\033[K[{:#>{}}{:.>{}}] {:3.0f}% {:.40}", "", filled, "",
               kBarWidth - filled, clamped * 100, stage);
    std::fflush(stderr);
    drawn_ = true;
    return;
  }
  // Prints by fraction only, because a loader reports a stage per tensor. A smaller fraction starts
  // again.
  const int quarter = static_cast<int>(clamped * 4);
  if (quarter == quarter_) return;
  quarter_ = quarter;
  if (clamped > 0)
    fmt::print(stderr, "{} {:.0f}%\n", stage, clamped * 100);
  else
    fmt::print(stderr, "{}\n", stage);
}

}  // namespace itif::ctl
