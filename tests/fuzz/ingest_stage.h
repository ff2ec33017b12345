// A port, two workers and a group for the fuzz target of the ingest stage.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "base/clock.h"
#include "ingest_clients.h"
#include "ingest_group.h"
#include "pipeline/worker.h"
#include "ring_port.h"

namespace itif::fuzz {

// Everything that is made once: workers have tables of megabytes.
struct IngestStage {
  static constexpr uint32_t kBuffers = 127;
  static constexpr uint64_t kBufferBytes = 2048 + 128;
  static constexpr uint32_t kMaxContexts = 16;
  static constexpr uint64_t kRestNs = 600'000'000'000;  // between inputs: past every timeout

  IngestStage() {
    shared.token_secret = Clients::kTokenSecret;
    for (uint16_t id = 0; id < 2; ++id) {
      pipeline::WorkerOptions options;
      options.id = id;
      options.pool = port.pool();
      options.local =
          net::make_local_addresses(
              port.port().info().mac,
              {.ipv4 = {"198.18.0.1"}, .ipv6 = {"fd00::1"}, .udp_port = 9009, .vlan = 0})
              .value();
      // The second worker is generous.
      options.reassembly = {.max_contexts = kMaxContexts,
                            .max_held_bytes = (id == 0 ? 40u : 1000u) * kBufferBytes,
                            .tenant_max_contexts = id == 0 ? 8u : kMaxContexts,
                            .tenant_max_held_bytes = (id == 0 ? 30u : 1000u) * kBufferBytes,
                            .max_tenants = 8,
                            .max_pieces_per_request = 128,
                            .piece_slots = id == 0 ? 256u : 1024u,
                            .stall_ns = 30'000'000};
      options.cache = {.max_entries = id == 0 ? 4u : 64u,
                       .max_bytes = id == 0 ? 4096u : 1u << 20,
                       .max_tenants = 8};
      options.sessions = {.max_sessions = id == 0 ? 4u : 16u, .max_tenants = 8};
      options.max_unproven_replies = id == 0 ? 100 : 10'000;
      options.answer_bad_tags = id == 1;
      options.stamps_stages = id == 1;
      options.seed = 1;
      auto worker = pipeline::Worker::create(port.port(), shared, options);
      CHECK(worker.has_value());
      workers[id] = std::move(*worker);
    }
  }

  fuzz::RingPort port{kBuffers};
  VirtualClock clock{kRestNs};
  pipeline::Shared shared{clock};
  Clients clients{port};
  fuzz::IngestGroup group{kMaxContexts, clients, clock};
  std::array<std::unique_ptr<pipeline::Worker>, 2> workers;
  uint64_t generation = 0;
};

}  // namespace itif::fuzz
