// The rules that find what limits a group, in their order, and GSLICE's GUE.
#include "telemetry/bottleneck.h"

#include "telemetry/gue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace itif::telemetry {
namespace {

// A group that serves all that comes, at a fifth of what it could.
GroupLoad calm() {
  return {.interval_s = 1,
          .answered = 100,
          .received_datagrams = 1000,
          .worker_busy = 0.1,
          .device_busy = 0.2,
          .has_stages = true,
          .arrive_ns = 1e5,
          .queue_ns = 2e5,
          .compute_ns = 2e6,
          .send_ns = 1e4,
          .total_ns = 2.4e6};
}
GroupLoad backlogged() {
  GroupLoad load = calm();
  load.queue_ns = 6e6;
  load.total_ns = 8.2e6;
  load.device_busy = 0.97;
  return load;
}

struct Scene {
  const char* name;
  GroupLoad load;
  Limit limit;
  const char* because;  // a part of it
};

template <class Edit>
GroupLoad with(GroupLoad load, Edit edit) {
  edit(load);
  return load;
}

TEST(Bottleneck, TheFirstRuleThatAppliesDecides) {
  const Scene scenes[] = {
      {"calm", calm(), Limit::kClients, "20 %"},
      {"nothing came", GroupLoad{.interval_s = 1, .has_stages = true}, Limit::kClients,
       "no request"},
      // Rule 2.
      {"batches longer than the interval",
       GroupLoad{.interval_s = 1, .waiting = 32, .device_busy = 1, .has_stages = true},
       Limit::kDevice, "32 requests wait; batches run 100 % of the time"},
      {"batches longer than the interval, which wait for turns",
       GroupLoad{.interval_s = 1,
                 .waiting = 32,
                 .device_busy = 0.4,
                 .turn_wait = 0.6,
                 .has_stages = true},
       Limit::kShare, "32 requests wait; batches wait 60 % of their time for other groups"},
      {"a batch longer than the interval, and none waits",
       GroupLoad{.interval_s = 1, .device_busy = 1, .has_stages = true}, Limit::kDevice, "100 %"},
      {"requests wait for nothing", GroupLoad{.interval_s = 1, .waiting = 3, .has_stages = true},
       Limit::kClients, "3 requests wait; but batches run only 0 % of the time"},
      {"backlog", backlogged(), Limit::kDevice, "wait 6.00 ms for 2.00 ms"},
      {"refused",
       with(calm(),
            [](GroupLoad& l) {
              l.overloaded = 7;
              l.device_busy = 0.6;
            }),
       Limit::kDevice, "7 were refused"},
      {"backlog and a share",
       with(backlogged(),
            [](GroupLoad& l) {
              l.device_busy = 0.3;
              l.turn_wait = 0.7;
            }),
       Limit::kShare, "70 %"},
      {"backlog, few waits for turns",
       with(backlogged(),
            [](GroupLoad& l) {
              l.device_busy = 0.9;
              l.turn_wait = 0.1;
            }),
       Limit::kDevice, "100 %"},
      {"backlog, idle device", with(backlogged(), [](GroupLoad& l) { l.device_busy = 0.2; }),
       Limit::kClients, "only 20 %"},
      {"backlog, busy thread",
       with(backlogged(),
            [](GroupLoad& l) {
              l.device_busy = 0.2;
              l.intake_busy = 0.4;
            }),
       Limit::kCpu, "takes requests in for 40 %"},
      {"budgets shorter than a batch", with(calm(), [](GroupLoad& l) { l.late = 9 * l.answered; }),
       Limit::kDevice, "end before their results, though batches run only 20 % of the time"},
      {"budgets shorter than a batch, and none is answered",
       GroupLoad{.interval_s = 2, .late = 50, .device_busy = 0.1, .has_stages = true},
       Limit::kDevice, "budgets of 25 of 25 requests per second"},
      {"few late", with(calm(), [](GroupLoad& l) { l.answered = 1000, l.late = 5; }),
       Limit::kClients, "few requests wait"},
      {"late in a backlog", with(backlogged(), [](GroupLoad& l) { l.late = l.answered; }),
       Limit::kDevice, "would have exceeded their budget; batches run"},
      {"late beside other groups",
       with(calm(),
            [](GroupLoad& l) {
              l.late = l.answered;
              l.turn_wait = l.device_busy;
            }),
       Limit::kShare, "50 %"},
      {"pieces that arrive after the budget",
       with(calm(), [](GroupLoad& l) { l.arrived_late = l.answered; }), Limit::kNetwork,
       "end before all pieces have arrived"},
      {"pieces that arrive after the budget, and none is answered",
       GroupLoad{.interval_s = 2, .arrived_late = 50, .has_stages = true}, Limit::kNetwork,
       "budgets of 25 of 25 requests per second"},
      // A backlog comes before lost datagrams: the group cannot serve those that arrive.
      {"backlog and losses", with(backlogged(), [](GroupLoad& l) { l.lost_datagrams = 500; }),
       Limit::kDevice, ""},
      {"backlog and a busy worker", with(backlogged(), [](GroupLoad& l) { l.worker_busy = 1; }),
       Limit::kDevice, ""},
      // Rule 4.
      {"losses", with(calm(), [](GroupLoad& l) { l.lost_datagrams = 10; }), Limit::kNetwork,
       "0.99 %"},
      {"few losses",
       with(calm(),
            [](GroupLoad& l) {
              l.received_datagrams = 100'000;
              l.lost_datagrams = 10;
            }),
       Limit::kClients, ""},
      {"losses and a busy worker",
       with(calm(),
            [](GroupLoad& l) {
              l.lost_datagrams = 10;
              l.worker_busy = 0.9;
            }),
       Limit::kCpu, "90 %"},
      // Rule 5. A flood of bad datagrams: no request is answered.
      {"busy worker",
       with(calm(),
            [](GroupLoad& l) {
              l.worker_busy = 0.85;
              l.answered = 0;
            }),
       Limit::kCpu, "85 %"},
      // Rule 9.
      {"slow arrival",
       with(calm(),
            [](GroupLoad& l) {
              l.arrive_ns = 4e6;
              l.total_ns = 6.3e6;
            }),
       Limit::kNetwork, "arrive for 4.00 ms"},
      {"slow link to clients",
       with(calm(),
            [](GroupLoad& l) {
              l.send_ns = 4e6;
              l.total_ns = 6.3e6;
            }),
       Limit::kNetwork, "leave for 4.00 ms"},
      // Rule 10.
      {"full device without a queue", with(calm(), [](GroupLoad& l) { l.device_busy = 0.9; }),
       Limit::kDevice, "90 %"},
      {"full device of others",
       with(calm(),
            [](GroupLoad& l) {
              l.device_busy = 0.5;
              l.turn_wait = 0.4;
            }),
       Limit::kShare, "wait 44 %"},
      {"taking in and batches",
       with(calm(),
            [](GroupLoad& l) {
              l.device_busy = 0.5;
              l.intake_busy = 0.35;
            }),
       Limit::kDevice, "batches run 50 %"},
      {"more taking in than batches",
       with(calm(),
            [](GroupLoad& l) {
              l.device_busy = 0.3;
              l.intake_busy = 0.55;
            }),
       Limit::kCpu, "takes requests in 55 %"},
      {"taking in beside batches",
       with(calm(),
            [](GroupLoad& l) {
              l.device_busy = 0.3;
              l.intake_busy = 0.55;
              l.overlaps = true;
            }),
       Limit::kClients, ""},
      {"much taking in beside batches",
       with(calm(),
            [](GroupLoad& l) {
              l.device_busy = 0.3;
              l.intake_busy = 0.9;
              l.overlaps = true;
            }),
       Limit::kCpu, "90 %"},
  };
  for (const Scene& scene : scenes) {
    const Verdict verdict = find_limit(scene.load);
    EXPECT_EQ(limit_name(verdict.limit), std::string(limit_name(scene.limit)))
        << scene.name << ": " << verdict.because;
    EXPECT_NE(verdict.because.find(scene.because), std::string::npos)
        << scene.name << ": " << verdict.because;
  }
}

GroupLoad refused(GroupLoad load, RefusalCause cause, uint64_t count) {
  load.refused[cause] = count;
  return load;
}

// It said "clients: few requests wait" while itifd refused nearly all requests.
TEST(Bottleneck, LimitsOfTheDataPlaneAndQuotasAreNamed) {
  using enum RefusalCause;
  const GroupLoad full = with(backlogged(), [](GroupLoad& l) { l.batch_fullness = 0.9; });
  const Scene scenes[] = {
      {"tenant's contexts", refused(calm(), kTenantContexts, 3900), Limit::kDataPlane,
       "3900 of 4000 requests per second are refused, most as tenant_contexts_full "
       "(data_plane.tenant_max_contexts, or the tenant's share of max_contexts); batches run 20 % "
       "of the time; refused per second: 3900 tenant_contexts_full"},
      {"two limits",
       refused(refused(refused(calm(), kSessions, 20), kHeldBytes, 30), kOverQuota, 99),
       Limit::kDataPlane,
       "50 of 249 requests per second are refused, most as held_bytes_full "
       "(data_plane.max_held_bytes, or mbufs); batches run 20 % of the time; refused per second: "
       "99 over_quota, 30 held_bytes_full, 20 sessions_full"},
      {"one of a hundred", refused(calm(), kPieces, 2), Limit::kDataPlane, "pieces_full"},
      {"one of a thousand",
       refused(with(calm(), [](GroupLoad& l) { l.answered = 1000; }), kPieces, 1), Limit::kClients,
       "few requests wait; refused per second: 1 pieces_full"},
      // Few requests in progress make small batches, which may run all the time.
      {"small batches",
       refused(with(calm(), [](GroupLoad& l) { l.device_busy = 0.95; }), kTenantContexts, 3900),
       Limit::kDataPlane, ""},
      {"one waits for each that runs",
       refused(with(backlogged(), [](GroupLoad& l) { l.queue_ns = 2e6; }), kTenantContexts, 50),
       Limit::kDataPlane, ""},
      // More requests would only wait longer.
      {"many wait", refused(backlogged(), kTenantContexts, 50), Limit::kDevice,
       "refused per second: 50 tenant_contexts_full"},
      {"full batches",
       refused(with(full, [](GroupLoad& l) { l.queue_ns = 2e6; }), kTenantContexts, 50),
       Limit::kDevice, ""},
      {"refused by both",
       refused(with(calm(),
                    [](GroupLoad& l) {
                      l.overloaded = 7;
                      l.device_busy = 0.9;
                    }),
               kTenantContexts, 50),
       Limit::kDevice, "7 were refused"},
      {"many wait for an idle device",
       refused(with(backlogged(), [](GroupLoad& l) { l.device_busy = 0.1; }), kContexts, 50),
       Limit::kDataPlane, "data_plane.max_contexts"},
      {"quota", refused(calm(), kOverQuota, 2900), Limit::kQuota,
       "2900 of 3000 requests per second are refused, most as over_quota (quota_rps of its "
       "tenants); batches run 20 %"},
      {"quota, and a worker that refuses all the time",
       refused(with(calm(), [](GroupLoad& l) { l.worker_busy = 0.9; }), kOverQuota, 2900),
       Limit::kQuota, ""},
      {"a worker that also refuses some",
       refused(with(calm(), [](GroupLoad& l) { l.worker_busy = 0.9; }), kOverQuota, 50),
       Limit::kCpu, "90 % of the time; refused per second: 50 over_quota"},
      {"some over their quota", refused(calm(), kOverQuota, 50), Limit::kQuota, ""},
      {"quota, and nothing is answered", refused({.interval_s = 2}, kOverQuota, 50), Limit::kQuota,
       "25 of 25 requests per second"},
      {"quota, and a few that wait",
       refused(with(backlogged(), [](GroupLoad& l) { l.device_busy = 0.01; }), kOverQuota, 2900),
       Limit::kQuota, ""},
      {"quota, and a full device", refused(backlogged(), kOverQuota, 50), Limit::kDevice,
       "refused per second: 50 over_quota"},
  };
  for (const Scene& scene : scenes) {
    const Verdict verdict = find_limit(scene.load);
    EXPECT_EQ(limit_name(verdict.limit), std::string(limit_name(scene.limit)))
        << scene.name << ": " << verdict.because;
    EXPECT_NE(verdict.because.find(scene.because), std::string::npos)
        << scene.name << ": " << verdict.because;
  }
}

TEST(Bottleneck, WithoutStagesTheQueueDecides) {
  GroupLoad load{.interval_s = 1, .answered = 10, .device_busy = 0.9};
  EXPECT_EQ(find_limit(load).limit, Limit::kDevice);  // rule 9
  load.device_busy = 0.6;
  EXPECT_EQ(find_limit(load).limit, Limit::kClients);
  load.waiting = 3;
  const Verdict verdict = find_limit(load);
  EXPECT_EQ(verdict.limit, Limit::kDevice);
  EXPECT_NE(verdict.because.find("3 requests wait"), std::string::npos) << verdict.because;
}

// Without answers the queue's mean is unknown.
TEST(Bottleneck, AnEmptyIntervalDividesByNothing) {
  for (const bool has_stages : {false, true}) {
    const Verdict verdict = find_limit({.has_stages = has_stages});
    EXPECT_EQ(verdict.limit, Limit::kClients);
    EXPECT_EQ(verdict.because.find("nan"), std::string::npos) << verdict.because;
  }
}

TEST(Bottleneck, NamesAreDistinct) {
  std::set<std::string> names;
  for (const Limit limit : kLimits) names.insert(limit_name(limit));
  EXPECT_EQ(names.size(), std::size(kLimits));
  EXPECT_EQ(names.count("?"), 0u);
}

// GSLICE, Table 5: ResNet-50 in batches of 8 answers 816 images/s, each in 9.75 ms; VGG-19 in
// batches of 32 answers 512 images/s, each in 63.12 ms.
TEST(Gue, IsThroughputOverTheTimeOfABatch) {
  EXPECT_NEAR(gue(816, 9.75e6), 83.69, 0.005);
  EXPECT_NEAR(gue(512, 63.12e6), 8.11, 0.005);
  // Table 2: Alexnet under MPS has 235.75; section 4.4 says 460 images/s, thus 1.95 ms each.
  EXPECT_NEAR(gue(460, 1.951e6), 235.8, 0.05);
  EXPECT_EQ(gue(0, 5e6), 0);
  EXPECT_EQ(gue(100, 0), 0);
}

}  // namespace
}  // namespace itif::telemetry
