// What the control server needs of the running appliance. lib/appliance implements it over the runtime and the
// pipeline; tests implement it over nothing. Calls come from the control server's worker thread, one
// at a time, except those marked "any thread".
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

// What is durable of a tenant: a row of the registry.
struct TenantRecord {
  uint32_t id = 0;
  std::string name;
  std::string model_dir;
  std::string group;  // name; empty: chosen from the model's architecture
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

// What loading found out about a tenant's model, for `tenant show`.
struct AdmittedModel {
  std::string group;     // the group's name
  std::string backbone;  // "bert 12x768, 12 heads"
  std::string head;      // "classification (3 labels)"
  std::vector<std::string> labels;
  uint32_t max_tokens = 0;
  uint64_t weight_bytes = 0;  // device memory of its own
  uint64_t shared_bytes = 0;  // that the tenants of its group share
  std::string result_kind;    // wire::result_kind_name of the default result
};

using Progress = std::function<void(const std::string& stage, double fraction)>;

class Appliance {
 public:
  virtual ~Appliance() = default;

  // Tenants that exist and whose models are not loaded: their requests are refused with not_admitted.
  // Replaces the settings of those expected already. REQUIRES: none of them is admitted.
  virtual void expect(const std::vector<TenantRecord>& records) = 0;
  // Loads the model beside what is serving, then lets traffic in; of a new tenant or an expected one.
  // On error nothing has changed.
  virtual Result<AdmittedModel> admit(const TenantRecord& record, const Progress& progress) = 0;
  // The record's new settings; reloads the model (build beside, swap) if reload is true.
  virtual Result<AdmittedModel> update(const TenantRecord& record, bool reload,
                                       const Progress& progress) = 0;
  // Stops accepting, waits for what is in flight, frees the slot. Also of an expected tenant.
  virtual Status remove(uint32_t id) = 0;

  // How batches are laid out, of groups that run or will, by their names.
  virtual void expect_planners(const std::map<std::string, std::string>& planners) = 0;
  // From the group's next batch on; may measure first. Returns the planner before.
  // Errors: kNotFound (group), kInvalidArgument (planner), those of run_profile.
  virtual Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                          const Progress& progress) = 0;
  // Measures what the group's GEMMs cost, while it serves. Errors: kNotFound, kUnsupported, kUnavailable.
  virtual Status run_profile(const std::string& group, const Progress& progress) = 0;

  // Has tenants whose device has failed served by the fallback. Errors: some are not.
  virtual Status leave_failed_device(const Progress& progress) = 0;
  // Starts the device anew, while the fallback serves, and goes back to it. Errors: kUnsupported (a device that
  // needs none), kInternal.
  virtual Status reset_device(const Progress& progress) = 0;

  // Refuse new requests with kDraining, answer what was accepted. Returns when nothing is in flight or
  // after timeout_ns; the number still in flight. Any thread.
  virtual Result<uint64_t> drain(uint64_t timeout_ns) = 0;
  virtual void resume_from_drain() = 0;
  // For a shutdown: what runs now ends early. A load fails with kUnavailable, a drain that has begun
  // returns, a removal leaves the slot. Any thread.
  virtual void cancel() = 0;

  // Documents for the client (docs/control.md). Any thread. Counts are since the start of itifd, or of
  // the tenant; latencies in µs, from a request's first piece to the last datagram of its answer.
  //
  // {groups: [{name, backbone, device, dtype, tenants: [name], slots, slots_used, weight_bytes,
  //   workspace_bytes, requests_waiting, requests_executing, scheduler, planner, batches, requests,
  //   tokens, rows, refused, mean_batch_requests, mean_batch_tokens, mean_batch_tenants, busy_s,
  //   device_failed; graphs, graph_launches of groups on a GPU; kv_blocks, kv_blocks_used,
  //   kv_blocks_reserved of groups that generate}]}
  virtual nlohmann::json groups() const = 0;
  // {group, device, backbone, lengths: [n], batches: [n], gemm_ns: [[ns by batch] by length],
  //  counts: [n], sizes: [n], batched_gemm_ns: [[[ns by size] by count] by length],
  //  range_counts: [n], range_rows: [n], shared_gemms: [{n, k, in_turn_ns: [[ns by rows] by count],
  //  at_once_ns: likewise}]}; of groups that generate, lengths to batched_gemm_ns are empty.
  // Errors: kNotFound (no such group, or nothing measured).
  virtual Result<nlohmann::json> profile(const std::string& group) const = 0;
  // {uptime_s, interval_ns,
  //  tenants: [{id, name, group, state, received, answered, refused: {status: count}, in_flight,
  //   requests_per_s, p50_ns, p99_ns, p999_ns, deadline_missed, slo_missed, datagrams, dropped,
  //   tokens}],
  //  total: {received, answered, refused, in_flight, requests_per_s, p50_ns, p99_ns, p999_ns,
  //   deadline_missed, slo_missed},
  //  datagrams: {received, received_bytes, forwarded, held, dropped, sent, sent_bytes, send_dropped,
  //   send_no_mbuf, transmit_refused, contexts, held_bytes, cache_hits},
  //  stages: {reassembly|queue|execute|respond|total: {count, p50_us, p99_us, p999_us, max_us}}}
  // received, answered and refused count requests since the start; rates and tenants' percentiles are
  // over the last interval_ns.
  virtual nlohmann::json stats() const = 0;
  // {workers: [{worker, port, queue, received, forwarded, held, dropped: {reason: count}}],
  //  tenants: [{id, name, received, forwarded, held, dropped: {reason: count}}],
  //  total: {received, forwarded, held, dropped: {reason: count}, nic_missed},
  //  ports: [{device, rx_packets, rx_missed, rx_no_mbuf, rx_errors, tx_packets, tx_errors}]}
  // Reasons that never happened are left out. received = forwarded + held + Σ dropped.
  virtual nlohmann::json drops() const = 0;
  // {kind, name, dtype, threads, memory_bytes, available_bytes, reason, state: "ok"|"failed"}
  virtual nlohmann::json device() const = 0;
  // {status: "ok"|"draining"|"degraded", problems: [text], uptime_s, in_flight, tenants, workers, polling,
  //  ports: [{device, driver, mac, link_up, speed_mbps, mtu, addresses: [text]}]}
  virtual nlohmann::json health() const = 0;
  // Where clients send requests: {address: "198.18.0.1", port: 9009, fragment_bytes: 1384}.
  virtual nlohmann::json data_address() const = 0;
};

}  // namespace itif::control
