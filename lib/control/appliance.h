// The interface of the running appliance to the control server. lib/serving implements it over
// the runtime and the pipeline; tests implement a fake. The control server's worker thread makes
// all calls, one at a time, except those marked "any thread".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tenant/snapshot.h"

namespace itif::control {

// The durable state of a tenant: a row of the registry.
struct TenantRecord {
  uint32_t id = 0;
  std::string name;
  std::string model_dir;
  std::string group;  // a group's name; empty: chosen from the model's architecture
  uint64_t slo_ns = 0;
  uint32_t weight = 1;
  uint32_t quota_rps = 0;
  uint8_t auth = 1;  // wire::Auth
  tenant::State state = tenant::State::kServing;
  tenant::Key key;
  tenant::Key previous_key;
  bool has_previous_key = false;
  uint64_t created_unix_ns = 0;
  uint64_t updated_unix_ns = 0;
};

// Describes a tenant's loaded model, for `tenant show`.
struct AdmittedModel {
  std::string group;
  std::string backbone;  // "bert 12x768, 12 heads"
  std::string head;      // "classification (3 labels)"
  std::vector<std::string> labels;
  uint32_t max_tokens = 0;
  uint64_t weight_bytes = 0;  // device memory that only this tenant uses
  uint64_t shared_bytes = 0;  // device memory that the tenants of its group share
  std::string result_kind;    // wire::result_kind_name of the default result
};

using Progress = std::function<void(const std::string& stage, double fraction)>;

class Appliance {
 public:
  virtual ~Appliance() = default;

  // Registers tenants whose models are not loaded yet; requests to them are refused with
  // not_admitted. Replaces the settings of a tenant already expected.
  // REQUIRES: none of them is admitted.
  virtual void expect(const std::vector<TenantRecord>& records) = 0;
  // Loads the model of a new or expected tenant while others serve, then accepts its traffic.
  // On error nothing has changed.
  virtual Result<AdmittedModel> admit(const TenantRecord& record, const Progress& progress) = 0;
  // Applies the record's new settings. If `reload`, loads the model again while the old one serves,
  // then swaps them.
  virtual Result<AdmittedModel> update(const TenantRecord& record, bool reload,
                                       const Progress& progress) = 0;
  // Stops accepting requests, waits for those in flight, frees the tenant's slot. The tenant may be
  // admitted or only expected.
  virtual Status remove(uint32_t id) = 0;

  // Sets the planners, keyed by group name, of groups that run now or are made later.
  virtual void expect_planners(const std::map<std::string, std::string>& planners) = 0;
  // Changes the planner from the group's next batch on; may measure GEMM costs first. Returns the
  // previous planner.
  // Errors: kNotFound (group), kInvalidArgument (planner), those of run_profile.
  virtual Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                          const Progress& progress) = 0;
  // Measures the cost of the group's GEMMs while the group serves.
  // Errors: kNotFound, kUnsupported, kUnavailable.
  virtual Status run_profile(const std::string& group, const Progress& progress) = 0;

  // Moves the tenants of a failed device to the fallback device. Errors: some could not be moved.
  virtual Status leave_failed_device(const Progress& progress) = 0;
  // Restarts the device while the fallback serves, then moves the tenants back to it.
  // Errors: kUnsupported (the device needs no reset), kInternal.
  virtual Status reset_device(const Progress& progress) = 0;

  // Refuses new requests with kDraining and answers those already accepted. Returns when none is in
  // flight or after timeout_ns, with the number still in flight. Any thread.
  virtual Result<uint64_t> drain(uint64_t timeout_ns) = 0;
  virtual void resume_from_drain() = 0;
  // Ends running calls early, for a shutdown: a load fails with kUnavailable, a drain in progress
  // returns, a removal leaves the slot occupied. Any thread.
  virtual void cancel() = 0;

  // The calls below return JSON documents for clients (docs/control.md). Any thread. Counts start
  // with itifd or with the tenant. Latencies are in µs, from a request's first piece to the last
  // datagram of its answer.
  //
  // {groups: [{name, backbone, device, dtype, tenants: [name], slots, slots_used, weight_bytes,
  //   workspace_bytes, requests_waiting, requests_executing, scheduler, planner, batches, requests,
  //   tokens, rows, refused, mean_batch_requests, mean_batch_tokens, mean_batch_tenants, busy_s,
  //   device_failed; on a GPU also graphs, graph_launches; groups that generate also kv_blocks,
  //   kv_blocks_used, kv_blocks_reserved}]}
  virtual nlohmann::json groups() const = 0;
  // {group, device, backbone, lengths: [n], batches: [n], gemm_ns: [[ns by batch] by length],
  //  counts: [n], sizes: [n], batched_gemm_ns: [[[ns by size] by count] by length],
  //  range_counts: [n], range_rows: [n], shared_gemms: [{n, k, in_turn_ns: [[ns by rows] by count],
  //  at_once_ns: [[ns by rows] by count]}]}
  // in_turn_ns: GEMMs run sequentially; at_once_ns: concurrently. The fields lengths to
  // batched_gemm_ns are empty for groups that generate.
  // Errors: kNotFound (no such group, or nothing measured).
  virtual Result<nlohmann::json> profile(const std::string& group) const = 0;
  // {uptime_s, interval_ns,
  //  tenants: [{id, name, group, state, received, answered, refused: {status: count}, in_flight,
  //   requests_per_s, p50_ns, p99_ns, p999_ns, deadline_missed, slo_missed, datagrams, dropped,
  //   tokens}],
  //  total: {received, answered, refused, in_flight, requests_per_s, p50_ns, p99_ns, p999_ns,
  //   deadline_missed, slo_missed},
  //  datagrams: {received, received_bytes, forwarded, held, dropped, sent, sent_bytes,
  //   send_dropped, send_no_mbuf, transmit_refused, contexts, held_bytes, cache_hits},
  //  stages: {reassembly|queue|execute|respond|total: {count, p50_us, p99_us, p999_us, max_us}}}
  // received, answered and refused count requests since the start. Rates and tenants' percentiles
  // cover the last interval_ns.
  virtual nlohmann::json stats() const = 0;
  // {workers: [{worker, port, queue, received, forwarded, held, dropped: {reason: count}}],
  //  tenants: [{id, name, received, forwarded, held, dropped: {reason: count}}],
  //  total: {received, forwarded, held, dropped: {reason: count}, nic_missed},
  //  ports: [{device, rx_packets, rx_missed, rx_no_mbuf, rx_errors, tx_packets, tx_errors}]}
  // Reasons with a count of 0 are left out. received = forwarded + held + Σ dropped.
  virtual nlohmann::json drops() const = 0;
  // {kind, name, dtype, threads, memory_bytes, available_bytes, reason, state: "ok"|"failed"}
  virtual nlohmann::json device() const = 0;
  // {status: "ok"|"draining"|"degraded", problems: [text], uptime_s, in_flight, tenants, workers,
  //  polling, ports: [{device, driver, mac, link_up, speed_mbps, mtu, addresses: [text]}]}
  virtual nlohmann::json health() const = 0;
  // The address that clients send requests to:
  // {address: "198.18.0.1", port: 9009, fragment_bytes: 1384}.
  virtual nlohmann::json data_address() const = 0;
};

}  // namespace itif::control
