// The schema: name, field and range of every configuration key. The reader, the list of known keys
// and flatten() are visitors over these functions, so that none of them misses a key.
//
// A key is its field's name without the unit suffix: values of durations and sizes include their
// unit ("50us", "64MiB").
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/cpu_list.h"
#include "config/config.h"
#include "plan/make_planner.h"
#include "sched/batch_control.h"
#include "sched/policy_spec.h"
#include "tensor/dtype.h"

namespace itif::config {

// Functions of a visitor V. `field` may be const in visitors that only read the structs.
//
//   v.boolean(key, bool&)
//   v.integer(key, field&, min, max)            unsigned integers of any width
//   v.duration(key, uint64_t& ns, min_ns, max_ns)
//   v.size(key, field& bytes, min, max)
//   v.text(key, std::string&)
//   v.choice(key, std::string&, {allowed…})
//   v.checked(key, std::string&, parse)         parse(text) returns a Result, which is not kept
//   v.texts(key, std::vector<std::string>&)
//   v.integers(key, std::vector<unsigned>&, max)

constexpr uint64_t kMicrosecond = 1'000;
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr unsigned kMaxLcore = 127;    // Debian's DPDK is built for 128
constexpr uint32_t kMaxOrdinal = 255;  // of a GPU; no machine has more

template <class V, class Eal>
void visit_eal(V& v, Eal& eal) {
  v.texts("args", eal.args);
}

template <class V, class Port>
void visit_port(V& v, Port& port) {
  v.text("device", port.device);
  v.texts("ipv4", port.ipv4);
  v.texts("ipv6", port.ipv6);
  v.integer("udp_port", port.udp_port, 1, 65535);
  v.integer("vlan", port.vlan, 0, 4094);
  v.integer("num_queues", port.num_queues, 1, 128);
  v.integer("num_workers", port.num_workers, 0, 128);
  v.integer("rx_descriptors", port.rx_descriptors, 32, 32768);
  v.integer("tx_descriptors", port.tx_descriptors, 32, 32768);
  v.integer("mtu", port.mtu, 576, 9216);
  v.integer("path_mtu", port.path_mtu, 0, 9216);
}

template <class V, class DataPlane>
void visit_data_plane(V& v, DataPlane& plane) {
  v.integers("worker_lcores", plane.worker_lcores, kMaxLcore);
  v.choice("polling", plane.polling, {"adaptive", "busy"});
  v.duration("idle_sleep", plane.idle_sleep_ns, kMicrosecond, 100 * kMillisecond);
  v.integer("mbufs", plane.mbufs, 1024, 1u << 24);
  v.size("mbuf_bytes", plane.mbuf_bytes, 2048, 16 * kKiB);
  v.integer("max_contexts", plane.max_contexts, 16, 1u << 22);
  v.size("max_held_bytes", plane.max_held_bytes, kMiB, 1024 * kGiB);
  v.integer("tenant_max_contexts", plane.tenant_max_contexts, 1, 1u << 22);
  v.size("tenant_max_held_bytes", plane.tenant_max_held_bytes, 64 * kKiB, 1024 * kGiB);
  v.duration("reassembly_timeout", plane.reassembly_timeout_ns, kMillisecond, 60 * kSecond);
  v.size("cache_bytes", plane.cache_bytes, 0, 1024 * kGiB);
  v.duration("cache_ttl", plane.cache_ttl_ns, kMillisecond, 600 * kSecond);
  v.integer("max_sessions", plane.max_sessions, 16, 1u << 22);
  v.integer("max_unproven_replies", plane.max_unproven_replies, 0, 100'000'000);
  v.boolean("answer_bad_tags", plane.answer_bad_tags);
}

template <class V, class Device>
void visit_device(V& v, Device& device) {
  v.choice("kind", device.kind, {"auto", "host", "cuda"});
  v.integer("ordinal", device.ordinal, 0, kMaxOrdinal);
  std::vector<std::string_view> dtypes = {"auto"};
  for (const NamedComputeTypes& types : kComputeTypes) dtypes.push_back(types.name);
  v.choice("dtype", device.dtype, dtypes);
  v.choice("attention", device.attention, {"itif", "cudnn"});
  v.choice("slices", device.slices, {"auto", "green-contexts", "mps", "priorities", "none"});
  v.integer("threads", device.threads, 0, 1024);
  v.integers("cpus", device.cpus, kMaxCpu);
  v.size("memory", device.memory_bytes, 0, 1024 * kGiB);
  v.choice("shares", device.shares, {"equal", "tuned"});
  v.choice("unmet_demands", device.unmet_demands, {"proportional", "equal"});
  v.duration("hold_down", device.hold_down_ns, 0, 3600 * kSecond);
}

template <class V, class Batching>
void visit_batching(V& v, Batching& batching) {
  v.checked("scheduler", batching.scheduler, sched::parse_policy_spec);
  v.checked("batch_control", batching.batch_control, sched::parse_batch_control);
  v.checked("planner", batching.planner, plan::parse_planner);
  v.choice("fidelity", batching.fidelity, {"fused", "thesis"});
  v.choice("overlap", batching.overlap, {"auto", "on", "off"});
  v.integer("max_tokens", batching.max_tokens, 0, 1u << 20);
  v.integer("max_requests", batching.max_requests, 1, 1u << 16);
  v.integer("max_tenants", batching.max_tenants, 1, 4096);
  v.integer("max_beams", batching.max_beams, 1, 4096);
  v.size("kv_cache", batching.kv_cache_bytes, kMiB, 1024 * kGiB);
  v.choice("joining", batching.joining, {"steps", "batches"});
  v.choice("cleaning", batching.cleaning, {"sequence", "slot", "batch"});
  v.integer("queue_requests", batching.queue_requests, 1, 1u << 20);
  v.duration("max_wait", batching.max_wait_ns, 0, 600 * kSecond);
}

template <class V, class Control>
void visit_control(V& v, Control& control) {
  v.text("endpoint", control.endpoint);
  v.text("events_endpoint", control.events_endpoint);
  v.text("tcp_endpoint", control.tcp_endpoint);
  v.text("curve_secret_file", control.curve_secret_file);
  v.text("authorized_keys_file", control.authorized_keys_file);
  v.text("state_dir", control.state_dir);
}

template <class V, class Telemetry>
void visit_telemetry(V& v, Telemetry& telemetry) {
  v.text("prometheus", telemetry.prometheus);
  v.boolean("stages", telemetry.stages);
  v.choice("log_level", telemetry.log_level, {"debug", "info", "warning", "error"});
  v.text("log_file", telemetry.log_file);
}

template <class V, class Process>
void visit_process(V& v, Process& process) {
  v.text("user", process.user);
  v.text("group", process.group);
  v.boolean("handover", process.handover);
  v.choice("seccomp", process.seccomp, {"auto", "refuse", "kill", "log", "off"});
  v.choice("model_check", process.model_check, {"sandbox", "off"});
  v.size("model_check_memory", process.model_check_memory_bytes, 16 * kMiB, 1024 * kGiB);
  v.duration("model_check_time", process.model_check_time_ns, 100 * kMillisecond, 3600 * kSecond);
  v.boolean("core_dumps", process.core_dumps);
}

}  // namespace itif::config
