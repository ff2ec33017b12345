// The Prometheus endpoint: an HTTP server of its own threads, off the data plane, which asks
// `collect` for the figures whenever it is scraped.
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
  // Serves http://<address>/metrics until destroyed. `collect` is called from the server's thread;
  // it reads counters and must not block the data plane. What it throws becomes an empty scrape.
  // Errors: kInvalidArgument (not HOST:PORT), kUnavailable (the address is in use or not ours).
  static Result<std::unique_ptr<PrometheusEndpoint>> start(const std::string& address,
                                                           std::function<Families()> collect);
  ~PrometheusEndpoint();
  PrometheusEndpoint(const PrometheusEndpoint&) = delete;
  PrometheusEndpoint& operator=(const PrometheusEndpoint&) = delete;

  // The TCP port it listens on: what was asked for, or what the system chose for port 0.
  int port() const;

 private:
  class Server;
  explicit PrometheusEndpoint(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

// Builders of families, so that collectors stay short. A family's name ends in its unit; counters
// in
// "_total".
prometheus::MetricFamily counter_family(std::string name, std::string help);
prometheus::MetricFamily gauge_family(std::string name, std::string help);
prometheus::MetricFamily summary_family(std::string name, std::string help);
// Adds one sample to a counter or gauge family.
void add_sample(prometheus::MetricFamily& family, std::vector<Label> labels, double value);
// Adds a summary in seconds (p50, p90, p99, p99.9, sum and count) of a histogram of nanoseconds.
void add_summary(prometheus::MetricFamily& family, std::vector<Label> labels, const Histogram& ns);

}  // namespace itif::telemetry
