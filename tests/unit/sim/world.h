// A NIC for all simulations of the test program, and a small scenario.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "sim/simulation.h"

namespace itif::sim::test {

inline Nic& nic() {
  static const std::unique_ptr<Nic> opened = [] {
    log::set_level(log::Level::kError);
    return Nic::open().value();
  }();
  return *opened;
}

// BERT-tiny on a V100, one second.
inline Scenario small_scenario() {
  Scenario s;
  s.duration_ns = 1'000'000'000;
  s.model = {.preset = "bert-tiny"};
  s.arrivals.rate = 500;
  s.data_plane.max_contexts = 1024;
  s.client.max_in_flight = 4096;
  return s;
}

inline Results run(const Scenario& scenario, bool logs_events = false) {
  auto simulation = Simulation::create(scenario, nic(), {.logs_events = logs_events});
  EXPECT_TRUE(simulation) << (simulation ? "" : simulation.error().message);
  if (!simulation) return {};
  const Status status = (*simulation)->run();
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return (*simulation)->results();
}

}  // namespace itif::sim::test
