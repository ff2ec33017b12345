// itifd's configuration file (libconfig syntax) as structs. conf/itifd.conf explains every key with
// unit, default and cost. The loader refuses unknown keys and wrong types with name, file and line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::config {

// Limit of the workers of all ports together: each needs a reader slot of the tenant snapshot.
constexpr uint32_t kMaxWorkers = 64;

struct Eal {
  std::vector<std::string> args;  // EAL arguments of DPDK, without argv[0]
};

struct Port {
  std::string device;  // DPDK device name: "net_af_packet0", "0000:3b:00.0"; empty: the first
  std::vector<std::string> ipv4;  // "198.18.0.1/24": addresses that itifd answers for
  std::vector<std::string> ipv6;  // "fd00::1/64"; the link-local address is added
  uint16_t udp_port = 9009;
  uint16_t vlan = 0;         // 0: untagged and priority-tagged frames; else this VLAN as well
  uint16_t num_queues = 1;   // of the device
  uint16_t num_workers = 0;  // 0: one per queue
  uint16_t rx_descriptors = 1024;
  uint16_t tx_descriptors = 1024;
  uint32_t mtu = 1500;    // the link's MTU
  uint32_t path_mtu = 0;  // largest packet that reaches clients; 0: mtu

  uint16_t workers() const { return num_workers != 0 ? num_workers : num_queues; }
};

struct DataPlane {
  std::vector<unsigned> worker_lcores;   // empty: the EAL's worker lcores
  std::string polling = "adaptive";      // "busy" | "adaptive"
  uint64_t idle_sleep_ns = 50'000;       // adaptive: longest sleep of an idle worker
  uint32_t mbufs = 32768;                // packet buffers, all queues together
  uint32_t mbuf_bytes = 2048;            // data room of an mbuf
  uint32_t max_contexts = 16384;         // requests being reassembled or executed, per worker
  uint64_t max_held_bytes = 256u << 20;  // packet buffers that these requests hold, per worker
  uint32_t tenant_max_contexts = 4096;
  uint64_t tenant_max_held_bytes = 128u << 20;
  uint64_t reassembly_timeout_ns = 500'000'000;
  uint64_t cache_bytes = 64u << 20;  // response cache, per worker
  uint64_t cache_ttl_ns = 10'000'000'000;
  uint32_t max_sessions = 65536;           // of clients, per worker
  uint32_t max_unproven_replies = 10'000;  // per second and source prefix, per worker
  bool answer_bad_tags = false;
};

struct Device {
  std::string kind = "auto";            // auto | host | cuda
  uint32_t ordinal = 0;                 // cuda: the GPU, as the CUDA runtime counts them
  std::string dtype = "auto";           // auto, or a name of kComputeTypes
  std::string attention = "itif";       // attention kernels: itif | cudnn
  std::string slices = "auto";          // cuda: auto | green-contexts | mps | priorities | none
  uint32_t threads = 0;                 // host: threads per batch; 0: one per core
  std::vector<unsigned> cpus;           // CPUs of executors and their threads; empty: any
  uint64_t memory_bytes = 0;            // limit for weights and workspaces; 0: the machine's memory
  std::string shares = "equal";         // of groups whose share control has not set: equal | tuned
  std::string unmet_demands = "equal";  // tuned: parts of what is left: proportional | equal
  uint64_t hold_down_ns = 2'000'000'000;  // tuned: a share that has changed stays as long
};

struct Batching {
  std::string scheduler = "fair";
  std::string batch_control = "aimd";  // how objectives bound batches: aimd | slab | fixed
  std::string fidelity = "fused";      // fusion mode: fused | thesis
  std::string overlap = "auto";        // prepare a batch while another computes: auto | on | off
  std::string planner = "packed";      // of groups whose planner control has not set
  uint32_t max_tokens = 0;             // per batch; 0: as suits the device
  uint32_t max_requests = 256;         // per batch
  uint32_t max_tenants = 64;           // slots per group
  uint32_t max_beams = 128;            // per step, in groups that generate
  uint64_t kv_cache_bytes = 1u << 30;  // limit per group that generates
  std::string joining = "steps";       // when sequences join those that run: steps | batches
  // The part of a batch whose end frees its K/V memory: sequence | slot | batch.
  std::string cleaning = "sequence";
  uint32_t queue_requests = 4096;  // waiting in a group; beyond: overloaded
  // Longest expected wait behind the tenant's own requests; beyond: overloaded. 0: no limit.
  uint64_t max_wait_ns = 1'000'000'000;

  // Requests of one tenant that may wait in a group. The other half is for the other tenants.
  uint32_t max_tenant_requests() const { return queue_requests > 1 ? queue_requests / 2 : 1; }
};

struct Control {
  std::string endpoint = "ipc:///run/itif/control.sock";
  std::string events_endpoint = "ipc:///run/itif/events.sock";
  std::string tcp_endpoint;  // "tcp://0.0.0.0:9010"; needs curve_secret_file and authorised keys
  std::string curve_secret_file;
  std::string authorized_keys_file;
  std::string state_dir = "/var/lib/itif";  // registry.db
};

struct Telemetry {
  std::string prometheus;  // "127.0.0.1:9464"; empty: none
  std::string log_level = "info";
  std::string log_file;  // empty: standard error
  bool stages = true;    // histograms of the stages of requests, per tenant, and traces
};

struct Process {
  std::string user;      // the process's after its start; empty: stays as it is
  std::string group;     // empty: the user's
  bool handover = true;  // keep what a handover needs: rights to open ports, to start a program
  std::string seccomp = "auto";  // calls off the filter's list: auto | refuse | kill | log | off
  // Models are parsed in a sandboxed process before this process parses them: sandbox | off.
  std::string model_check = "sandbox";
  uint64_t model_check_memory_bytes = 4ull << 30;  // of that process, per model
  uint64_t model_check_time_ns = 60'000'000'000;   // per model
  bool core_dumps = false;  // the kernel may write the process's memory to a file
};

struct Config {
  Eal eal;
  std::vector<Port> ports;
  DataPlane data_plane;
  Device device;
  Batching batching;
  Control control;
  Telemetry telemetry;
  Process process;
  uint64_t drain_timeout_ns = 10'000'000'000;
};

// Errors: kNotFound (no such file), kInvalidArgument (syntax, unknown key, wrong type, value out of
// range, contradiction); the message names file, line and key, and what is allowed.
Result<Config> load(const std::string& path);

}  // namespace itif::config
