// The JSON documents about the running appliance that clients ask for (docs/control.md).
// lib/serving implements the interface over the pipeline and the tenant service; tests implement a
// fake. Any thread. Counts start with itifd or with the tenant. Latencies are in µs, from a
// request's first piece to the last datagram of its answer.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"

namespace itif::control {

class Documents {
 public:
  virtual ~Documents() = default;

  // {id, name, requests, stages: [{stage, mean_ns, p50_ns, p99_ns}]}: of the tenant's answered
  // requests. Errors: kNotFound; kUnsupported (telemetry.stages = false).
  virtual Result<nlohmann::json> tenant_stages(uint32_t id) const = 0;
  // {groups: [{name, limit: "network"|"cpu"|"device"|"share"|"clients", because, interval_ns,
  //   answered, requests_per_s, latency_ns, gue, overloaded, waiting, received_datagrams,
  //   lost_datagrams, worker_busy, device_busy, turn_wait, intake_busy, share_percent,
  //   batch_fullness, stages, arrive_ns, intake_ns, queue_ns, compute_ns, send_ns, total_ns}]}:
  // what limits each group, with the evidence of at least interval_ns (telemetry/bottleneck.h).
  // `group` empty: all. Errors: kNotFound (no such group).
  virtual Result<nlohmann::json> bottleneck(const std::string& group,
                                            uint64_t interval_ns) const = 0;
  // {trace, id, name}: traces the tenant's next requests. Changes nothing else.
  // Errors: kNotFound; kUnavailable (another trace runs); kUnsupported (telemetry.stages = false).
  virtual Result<nlohmann::json> start_trace(uint32_t id, uint32_t requests) const = 0;
  // {trace, id, wanted, removed, requests: [{request_id, session, worker, tokens, status,
  //   arrival_ns, points: [{point, since_ns}]}]}: the traced requests from number `first` on, some
  // hundreds at most. `removed`: the tenant is no longer there.
  // Errors: kNotFound (no such trace, stopped or replaced).
  virtual Result<nlohmann::json> trace(uint32_t trace, uint32_t first) const = 0;
  // {}. Errors: as trace().
  virtual Result<nlohmann::json> stop_trace(uint32_t trace) const = 0;

  // {groups: [{name, backbone, device, dtype, tenants: [name], slots, slots_used, weight_bytes,
  //   workspace_bytes, requests_waiting, requests_executing, scheduler, planner, share_percent,
  //   cpus, weight, demand_percent, max_batch_tokens, batches, requests, tokens, rows, refused,
  //   mean_batch_requests, mean_batch_tokens, mean_batch_tenants, busy_s, turn_wait_s,
  //   requests_per_s, latency_ns, gue, device_failed; on a GPU also graphs, graph_launches,
  //   graph_failures, refused_gemms; groups that generate also kv_blocks, kv_blocks_used,
  //   kv_blocks_reserved}]}
  virtual nlohmann::json groups() const = 0;
  // {group, planner, batches: [{requests, tokens, rows, planner, execute_ns,
  //  offers: [{planner, predicted_ns}]}]}: the last batches, oldest first. A batch's planner is the
  // one that laid it out; `offers` is empty unless auto chose it.
  // Errors: kNotFound (no such group), kUnsupported (it generates).
  virtual Result<nlohmann::json> planner(const std::string& group) const = 0;
  // {group, device, backbone, lengths: [n], batches: [n], gemm_ns: [[ns by batch] by length],
  //  counts: [n], sizes: [n], batched_gemm_ns: [[[ns by size] by count] by length],
  //  other_row_ns: [ns by length], launch_ns, range_counts: [n], range_rows: [n],
  //  shared_gemms: [{n, k, times, in_turn_ns: [[ns by rows] by count],
  //  at_once_ns: [[ns by rows] by count]}]}
  // in_turn_ns: GEMMs run sequentially; at_once_ns: concurrently. A GPU's profile also has
  // streams_ns, pointers_ns, uneven_in_turn_ns, uneven_streams_ns and uneven_at_once_ns. The fields
  // lengths to batched_gemm_ns are empty for groups that generate.
  // Errors: kNotFound (no such group, or nothing measured).
  virtual Result<nlohmann::json> profile(const std::string& group) const = 0;
  // {group, device, backbone, threshold_percent, knee_percent, batches: [{requests, tokens,
  //  knee_percent, points: [{percent, requests_per_s}]}]}: throughput by share of the device. Past
  //  a knee, throughput gains at most the threshold (default 10 %).
  // Errors: kNotFound (no such group, or not measured).
  virtual Result<nlohmann::json> knee(const std::string& group,
                                      std::optional<uint64_t> threshold_percent) const = 0;
  // {uptime_s, interval_ns,
  //  tenants: [{id, name, group, state, received, answered, refused: {status: count}, in_flight,
  //   requests_per_s, p50_ns, p99_ns, p999_ns, deadline_missed, slo_missed, datagrams, repeated,
  //   dropped, tokens}],
  //  total: {received, answered, refused, in_flight, requests_per_s, p50_ns, p99_ns, p999_ns,
  //   deadline_missed, slo_missed},
  //  datagrams: {received, received_bytes, forwarded, held, repeated, dropped, sent,
  //   sent_bytes, send_dropped, send_no_mbuf, transmit_refused, contexts, held_bytes, cache_hits},
  //  stages: {reassembly|verify|intake|queue|plan|launch|compute|respond|send|total|expire:
  //   {count, p50_us, p99_us, p999_us, max_us}},
  //  lost_log_lines}
  // received, answered and refused count requests since the start. Rates and tenants' percentiles
  // cover the last interval_ns.
  virtual nlohmann::json stats() const = 0;
  // {workers: [{worker, port, queue, received, passed, forwarded, held, repeated: {reason: count},
  //   dropped: {reason: count}}],
  //  tenants: [{id, name, received, forwarded, held, repeated: {…}, dropped: {…}}],
  //  total: {received, forwarded, held, repeated: {…}, dropped: {…}, nic_missed},
  //  ports: [{device, rx_packets, rx_missed, rx_no_mbuf, rx_errors, tx_packets, tx_errors,
  //   mbufs_in_use}]}
  // Reasons with a count of 0 are left out. received = forwarded + held + Σ repeated + Σ dropped.
  // passed: to workers that share the queue, which have fed_by: the worker that owns it.
  virtual nlohmann::json drops() const = 0;
  // {kind, name, dtype, threads, memory_bytes, available_bytes, reason,
  //  shares: "time"|"processors"|"priority"|"none", slices: "turns"|"green-contexts"|"mps"|
  //  "priorities"|"none", slice_steps, state: "ok"|"failed"}
  virtual nlohmann::json device() const = 0;
  // {status: "ok"|"draining"|"degraded", problems: [text], uptime_s, in_flight, tenants, workers,
  //  polling, ports: [{device, driver, mac, link_up, speed_mbps, mtu, queues, workers,
  //  spreading: ["rss"|"driver"|"software"], offloads: {name: bool}, addresses: [text]}]}
  virtual nlohmann::json health() const = 0;
  // The address that clients send requests to:
  // {address: "198.18.0.1", port: 9009, fragment_bytes: 1368}.
  virtual nlohmann::json data_address() const = 0;
};

}  // namespace itif::control
