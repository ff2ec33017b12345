// Finds what limits a group now, from counts of the last seconds. Pure functions.
//
// Source: GSLICE, section 3.2.1, which compares the time to aggregate a task's packets with its
// processing times on CPU and GPU; extended by the network and the share, which GSLICE has as well,
// and by limits of the data plane, quotas, and clients that send too little.
#pragma once

#include <cstdint>
#include <string>

#include "telemetry/refusals.h"

namespace itif::telemetry {

enum class Limit : uint8_t {
  kNetwork,    // the link: requests arrive, or responses leave, too slowly; or it loses datagrams
  kCpu,        // the workers' CPUs, or the group's thread
  kDevice,     // the group's batches keep its device busy
  kShare,      // its batches wait while other groups compute
  kDataPlane,  // limits of the data plane refuse requests that it could serve
  kQuota,      // quotas of its tenants refuse requests that it could serve
  kClients,    // it could serve more than clients send
};
inline constexpr Limit kLimits[] = {Limit::kNetwork,   Limit::kCpu,   Limit::kDevice, Limit::kShare,
                                    Limit::kDataPlane, Limit::kQuota, Limit::kClients};
// "network", "cpu", "device", "share", "data_plane", "quota", "clients".
const char* limit_name(Limit limit) noexcept;

// A group's load over an interval. Fractions are of the interval, from 0 to 1; times are means of
// the requests answered in it.
struct GroupLoad {
  double interval_s = 0;
  uint64_t answered = 0;      // requests with a result
  uint64_t overloaded = 0;    // requests refused because they would wait, or waited, too long
  uint64_t late = 0;          // requests refused because their budget ends before their result
  uint64_t arrived_late = 0;  // requests whose budget ended before all pieces had arrived
  Refusals refused = {};      // before the group took them
  uint32_t waiting = 0;       // requests in the group's queue, now
  uint64_t received_datagrams = 0;  // of the whole appliance, as are the next two
  uint64_t lost_datagrams = 0;      // by ports: received but not taken, or not sent
  double worker_busy = 0;           // the busiest worker: time in polls that found work
  double device_busy = 0;           // the group's batches computed
  double turn_wait = 0;             // its batches waited for their turn
  // The group's thread took requests in. Without overlap no batch runs meanwhile.
  double intake_busy = 0;
  bool overlaps = false;
  double batch_fullness = 0;  // mean batch, as a fraction of the largest allowed one
  bool has_stages = false;    // the following are measured (telemetry.stages)
  double arrive_ns = 0;       // stage reassembly
  double intake_ns = 0;       // with overlap it includes waiting for the group's thread
  double queue_ns = 0;        // stages queue, plan and launch: all waits for a batch's computing
  double compute_ns = 0;
  double send_ns = 0;
  double total_ns = 0;
};

// Thresholds of the rules.
struct LimitRules {
  double saturated = 0.8;  // a thread or a device that is busy for this part of the time
  double half_busy = 0.5;  // a device that is busy enough to be the cause of a backlog
  double turns = 0.2;      // waits for turns, as a part of the time of batches
  double backlog = 0.5;    // waits in the queue, as a part of the time of computing
  double lost = 0.001;     // lost datagrams, as a part of all
  double transfer = 0.5;   // arriving and leaving, as a part of the total time
  double refused = 0.01;   // requests refused by a limit, as a part of those answered or refused
  double full = 0.8;       // a mean batch that is this full
  double deep = 2;         // waits in the queue for several batches, as a part of computing
};

struct Verdict {
  Limit limit = Limit::kClients;
  std::string because;  // one sentence with the figures that decided
};

// The first rule that applies decides:
//   1. Limits of the data plane refuse `refused` of the requests: data_plane. Not if batches run
//      for `half_busy` of the time and are `full`, leave `deep` waits, or the group refuses
//      requests: more requests at once would only wait longer.
//   2. Requests wait: some were refused as overload, budgets of `refused` of them end before their
//      results, or the queue takes `backlog` of the computing time (without stages, or if none was
//      answered: some wait now). Then
//      a. share, if waits for turns take `turns` of the batches' time;
//      b. device, if batches run for `half_busy` of the time, waits for turns included;
//      c. cpu, if the group's thread, which prepares batches, works for the rest of that time;
//      d. device, if budgets of `refused` of the requests end before their results: they are about
//         as short as the time of a batch;
//      e. quota, if quotas refuse `refused` of the requests;
//      f. clients otherwise.
//   3. Quotas refuse more requests than are answered: quota.
//   4. Ports lose `lost` of the datagrams: cpu if a worker is saturated, else network.
//   5. A worker is saturated: cpu.
//   6. Quotas refuse `refused` of the requests: quota.
//   7. Budgets of `refused` of the requests end before all pieces have arrived: network.
//   8. No request was answered, and batches run for less than `saturated` of the time: clients.
//   9. Arriving and leaving take `transfer` of the total time: network.
//  10. The group runs batches (waits for turns included) or takes requests in for `saturated` of
//      the time: cpu if it takes in for longer; share if waits take `turns` of the batches' time;
//      else device. If both overlap, each counts alone.
//  11. clients.
// Each sentence ends with the refusals per second, by cause.
Verdict find_limit(const GroupLoad& load, const LimitRules& rules = {});

}  // namespace itif::telemetry
