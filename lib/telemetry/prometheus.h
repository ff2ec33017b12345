// The Prometheus endpoint: an HTTP server with its own threads, separate from the data plane. It
// calls `collect` for each scrape.
#pragma once

#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/histogram.h"

namespace itif::telemetry {

using Families = std::vector<prometheus::MetricFamily>;
using Label = prometheus::ClientMetric::Label;

class PrometheusEndpoint {
 public:
  // Serves http://<address>/metrics until destroyed. Calls `collect` from the server's thread; it
  // reads counters and must not block the data plane. If it throws, the scrape is empty.
  // Errors: kInvalidArgument (not HOST:PORT), kUnavailable (the address is in use or not local).
  static Result<std::unique_ptr<PrometheusEndpoint>> start(const std::string& address,
                                                           std::function<Families()> collect);
  ~PrometheusEndpoint();
  PrometheusEndpoint(const PrometheusEndpoint&) = delete;
  PrometheusEndpoint& operator=(const PrometheusEndpoint&) = delete;

  // Returns the TCP port that it listens on. For port 0 the system chooses one.
  int port() const;

 private:
  class Server;
  explicit PrometheusEndpoint(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

// Build metric families. A family's name ends in its unit; a counter's ends in "_total".
prometheus::MetricFamily counter_family(std::string name, std::string help);
prometheus::MetricFamily gauge_family(std::string name, std::string help);
prometheus::MetricFamily summary_family(std::string name, std::string help);
// Adds one sample to a counter or gauge family.
void add_sample(prometheus::MetricFamily& family, std::vector<Label> labels, double value);
// Adds a summary in seconds (p50, p90, p99, p99.9, sum and count) of a histogram of nanoseconds.
void add_summary(prometheus::MetricFamily& family, std::vector<Label> labels, const Histogram& ns);

}  // namespace itif::telemetry
