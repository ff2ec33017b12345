#include "telemetry/prometheus.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace itif::telemetry {
namespace {

// Returns the response to GET `path` from 127.0.0.1:`port`, headers included.
std::string get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string text;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    (void)!write(fd, request.data(), request.size());
    char buffer[4096];
    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return text;
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "text: " << (text)

TEST(Prometheus, ServesTheCollectorsMetrics) {
  const auto endpoint = PrometheusEndpoint::start("127.0.0.1:0", [] {
    auto dropped = counter_family("itif_dropped_total", "Datagrams dropped.");
    add_sample(dropped, {{"reason", "bad_tag"}, {"worker", "0"}}, 3);
    auto held = gauge_family("itif_held", "Datagrams held.");
    add_sample(held, {}, 7);
    Histogram ns;
    for (int i = 0; i < 100; ++i) ns.record(2'000'000);
    auto stages = summary_family("itif_stage_seconds", "Time in a stage.");
    add_summary(stages, {{"stage", "queue"}}, ns);
    return Families{dropped, held, stages};
  });
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  const std::string text = get((*endpoint)->port(), "/metrics");
  EXPECT_CONTAINS(text, "200 OK");
  EXPECT_CONTAINS(text, "# TYPE itif_dropped_total counter");
  EXPECT_CONTAINS(text, "itif_dropped_total{reason=\"bad_tag\",worker=\"0\"} 3");
  EXPECT_CONTAINS(text, "itif_held 7");
  EXPECT_CONTAINS(text, "itif_stage_seconds_count{stage=\"queue\"} 100");
  EXPECT_CONTAINS(text, "itif_stage_seconds{stage=\"queue\",quantile=\"0.99\"} 0.002");
}

TEST(Prometheus, ThrowingCollectorGivesAnEmptyScrape) {
  const auto endpoint = PrometheusEndpoint::start(
      "127.0.0.1:0", []() -> Families { throw std::runtime_error("no figures"); });
  ASSERT_TRUE(endpoint);
  EXPECT_CONTAINS(get((*endpoint)->port(), "/metrics"), "200 OK");
}

TEST(Prometheus, ErrorForABusyAddressNamesIt) {
  const auto first = PrometheusEndpoint::start("127.0.0.1:0", [] { return Families{}; });
  ASSERT_TRUE(first);
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = PrometheusEndpoint::start(address, [] { return Families{}; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_CONTAINS(second.error().message, address);
  EXPECT_EQ(second.error().message.find('\n'), std::string::npos);
}

TEST(Prometheus, AddressWithoutPortIsRefused) {
  const auto endpoint = PrometheusEndpoint::start("localhost", [] { return Families{}; });
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace itif::telemetry
