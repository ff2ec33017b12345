// A measurement over time, of several groups or controls: GSLICE's Figures 12c, 15 and 16.
#pragma once

#include <string>
#include <vector>

namespace itif::bench {

struct TimeLine {
  // A period of one series. 0 in every period of every series: not measured.
  struct Interval {
    double share_percent = 0;  // of the device, at the end of the period
    double sent_per_s = 0, answered_per_s = 0;
    double mean_ms = 0;         // latency of the answers
    double batch_requests = 0;  // mean of the period's batches
  };
  struct Series {
    std::string name;
    std::vector<Interval> intervals = {};
  };
  std::string name;   // base name of its figure's files: "figure-15-slab"
  std::string title;  // "Figure 15a: …"
  double interval_s = 0;
  std::vector<Series> series = {};
};

// The quantities' names in files.
struct TimeLineField {
  const char* name;
  double TimeLine::Interval::*value;
};
inline constexpr TimeLineField kTimeLineFields[] = {
    {"share_percent", &TimeLine::Interval::share_percent},
    {"sent_per_s", &TimeLine::Interval::sent_per_s},
    {"answered_per_s", &TimeLine::Interval::answered_per_s},
    {"mean_ms", &TimeLine::Interval::mean_ms},
    {"batch_requests", &TimeLine::Interval::batch_requests}};

}  // namespace itif::bench
