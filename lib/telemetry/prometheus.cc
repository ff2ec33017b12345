#include "telemetry/prometheus.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>

#include "base/log.h"

namespace itif::telemetry {
namespace {

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(std::function<Families()> collect) : collect_(std::move(collect)) {}
  Families Collect() const override {
    try {
      return collect_();
    } catch (const std::exception& error) {
      log::error("prometheus: cannot collect metrics: {}", error.what());
      return {};
    }
  }

 private:
  std::function<Families()> collect_;
};

prometheus::MetricFamily family(std::string name, std::string help, prometheus::MetricType type) {
  prometheus::MetricFamily out;
  out.name = std::move(name);
  out.help = std::move(help);
  out.type = type;
  return out;
}

}  // namespace

// Keeps the collector alive: the exposer only has a weak reference to it.
class PrometheusEndpoint::Server {
 public:
  Server(const std::string& address, std::function<Families()> collect)
      : collector_(std::make_shared<Collector>(std::move(collect))),
        exposer_({"listening_ports", address, "num_threads", "1"}) {
    exposer_.RegisterCollectable(collector_);
  }
  int port() const {
    const std::vector<int> ports = exposer_.GetListeningPorts();
    return ports.empty() ? 0 : ports.front();
  }

 private:
  std::shared_ptr<prometheus::Collectable> collector_;
  prometheus::Exposer exposer_;
};

Result<std::unique_ptr<PrometheusEndpoint>> PrometheusEndpoint::start(
    const std::string& address, std::function<Families()> collect) {
  if (address.rfind(':') == std::string::npos)
    return fail(Code::kInvalidArgument,
                fmt::format("telemetry.prometheus: '{}' is not HOST:PORT, as in \"127.0.0.1:9464\"",
                            address));
  try {
    auto server = std::make_unique<Server>(address, std::move(collect));
    return std::unique_ptr<PrometheusEndpoint>(new PrometheusEndpoint(std::move(server)));
  } catch (const std::exception& error) {
    return fail(
        Code::kUnavailable,
        fmt::format("telemetry.prometheus: cannot listen on {}: the address is in use or not "
                    "local ({}); choose another or leave the key empty",
                    address, error.what()));
  }
}

PrometheusEndpoint::PrometheusEndpoint(std::unique_ptr<Server> server)
    : server_(std::move(server)) {}
PrometheusEndpoint::~PrometheusEndpoint() = default;

int PrometheusEndpoint::port() const {
  return server_->port();
}

prometheus::MetricFamily counter_family(std::string name, std::string help) {
  return family(std::move(name), std::move(help), prometheus::MetricType::Counter);
}

prometheus::MetricFamily gauge_family(std::string name, std::string help) {
  return family(std::move(name), std::move(help), prometheus::MetricType::Gauge);
}

prometheus::MetricFamily summary_family(std::string name, std::string help) {
  return family(std::move(name), std::move(help), prometheus::MetricType::Summary);
}

void add_sample(prometheus::MetricFamily& family, std::vector<Label> labels, double value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  if (family.type == prometheus::MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
}

void add_summary(prometheus::MetricFamily& family, std::vector<Label> labels, const Histogram& ns) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.summary.sample_count = ns.count();
  metric.summary.sample_sum = ns.mean() * static_cast<double>(ns.count()) * 1e-9;
  for (const double percent : {50.0, 90.0, 99.0, 99.9})
    metric.summary.quantile.push_back(
        {percent / 100, static_cast<double>(ns.percentile(percent)) * 1e-9});
}

}  // namespace itif::telemetry
