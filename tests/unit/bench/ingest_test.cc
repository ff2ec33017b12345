// The loads of `itif-bench ingest`, in small: a worker over a port of rings.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ingest/arrivals.h"
#include "ingest/parallel_load.h"
#include "ingest_port.h"

namespace itif::bench {
namespace {

constexpr uint32_t kImagePieces = 20;

LoadOptions image_load(wire::Auth auth = wire::Auth::kHeader) {
  return {.payload_bytes = kImagePieces * 1024 - 8, .fragment_bytes = 1024, .auth = auth};
}

struct Named {
  const char* name;
  LoadOptions load;
};

std::vector<Named> loads() {
  std::vector<Named> all;
  const auto add = [&](const char* name, LoadOptions load, auto change) {
    change(load);
    all.push_back({name, load});
  };
  const auto as_is = [](LoadOptions&) {};
  add("Single", {}, as_is);
  add("SingleWithoutTags", {.auth = wire::Auth::kNone}, as_is);
  add("SingleWithFullTags", {.auth = wire::Auth::kFull}, as_is);
  add("Answered", {}, [](LoadOptions& load) { load.responds = true; });
  add("AnsweredOfManyTenants", {}, [](LoadOptions& load) {
    load.responds = true;
    load.num_tenants = 100;
  });
  add("BurstsOf128", {}, [](LoadOptions& load) { load.burst = 128; });
  add("Cold", {}, [](LoadOptions& load) { load.cold = true; });
  add("ChecksumsInSoftware", image_load(),
      [](LoadOptions& load) { load.checksums_in_software = true; });
  add("Image", image_load(wire::Auth::kFull), as_is);
  add("ImageAnswered", image_load(), [](LoadOptions& load) { load.responds = true; });
  add("ImageShuffled", image_load(), [](LoadOptions& load) { load.shuffled = true; });
  add("ImagesInterleaved", image_load(), [](LoadOptions& load) { load.num_open = 30; });
  add("Overloaded", {}, [](LoadOptions& load) { load.fault = Fault::kOverloaded; });
  add("BadMagic", {}, [](LoadOptions& load) { load.fault = Fault::kBadMagic; });
  add("BadTags", {}, [](LoadOptions& load) { load.fault = Fault::kBadTag; });
  add("Replayed", {}, [](LoadOptions& load) { load.fault = Fault::kReplayed; });
  add("Sealed", image_load(wire::Auth::kSealed), as_is);
  const auto spread = [](LoadOptions& load) {
    load.num_clients = 16;
    load.num_workers = 3;
  };
  add("Spread", {.responds = true}, spread);
  add("SpreadOverloaded", {.fault = Fault::kOverloaded}, spread);
  add("SpreadImages", image_load(), spread);
  add("Duplicates", {.payload_bytes = 2048, .fragment_bytes = 1024},
      [](LoadOptions& load) { load.fault = Fault::kDuplicate; });
  return all;
}

class IngestLoad : public ::testing::TestWithParam<Named> {};

TEST_P(IngestLoad, EveryDatagramEndsAsExpected) {
  const SystemClock clock;
  const LoadOptions& options = GetParam().load;
  RingPort& port = test::ingest_port();
  const auto frames =
      net::create_mempool({.name = "frames", .mbufs = options.num_mbufs(), .mbuf_bytes = 2048});
  ASSERT_TRUE(frames) << frames.error().message;
  {
    const auto load = WorkerLoad::make(port, frames->get(), options, clock);
    ASSERT_TRUE(load) << load.error().message;
    const Status checked = (*load)->check(500);
    ASSERT_TRUE(checked) << checked.error().message;
    const Pass pass = (*load)->run(1000);
    EXPECT_GE(pass.datagrams, 1000u);
    EXPECT_GT(pass.cycles, 0u);
    EXPECT_EQ(options.payload_bytes % options.fragment_bytes == 0,
              pass.bytes == pass.datagrams * options.frame_bytes());
    const Pass bare = (*load)->run_bare(1000);
    EXPECT_GT(bare.cycles, 0u);
    EXPECT_LT(bare.cycles_per_datagram(), pass.cycles_per_datagram());
    uint64_t passed = 0;
    for (const auto& worker : (*load)->workers()) {
      passed += worker->counters().passed.read();
      EXPECT_GT(worker->counters().received.read(), 0u);
    }
    EXPECT_EQ(passed > 0, options.num_workers > 1);
    const Status finished = (*load)->finish();
    EXPECT_TRUE(finished) << finished.error().message;
  }
  EXPECT_EQ(rte_mempool_in_use_count(frames->get()), 0u) << "packet buffers were leaked";
  EXPECT_EQ(rte_mempool_in_use_count(port.pool()), 0u) << "packet buffers were leaked";
}

INSTANTIATE_TEST_SUITE_P(Each, IngestLoad, ::testing::ValuesIn(loads()),
                         [](const auto& info) { return std::string(info.param.name); });

// Two workers of two ports, and two that share a queue, in two threads.
TEST(IngestThreads, EveryDatagramEndsAsExpected) {
  const SystemClock clock;
  RingPort& first = test::ingest_port();
  const auto second = first.make_another();
  ASSERT_TRUE(second) << second.error().message;
  const auto frames = net::create_mempool({.name = "frames", .mbufs = 16383, .mbuf_bytes = 2048});
  ASSERT_TRUE(frames) << frames.error().message;
  const int cpu = usable_cpus().back();
  for (const Fault fault : {Fault::kNone, Fault::kOverloaded}) {
    LoadOptions options{.burst = 2048, .fault = fault, .num_clients = 16};
    const auto ports =
        WorkerLoad::make(std::vector{&first, second->get()}, frames->get(), options, clock);
    ASSERT_TRUE(ports) << ports.error().message;
    options.first_worker = options.num_workers = 2;
    const auto spread = WorkerLoad::make(first, frames->get(), options, clock);
    ASSERT_TRUE(spread) << spread.error().message;
    for (WorkerLoad* load : {ports->get(), spread->get()}) {
      const Status checked = load->check(500);
      ASSERT_TRUE(checked) << checked.error().message;
      ASSERT_EQ(load->workers().size(), 2u);
      {
        ParallelLoad parallel({load}, {cpu, cpu});
        for (int i = 0; i < 5; ++i) (void)parallel.run();
      }
      for (const auto& worker : load->workers())
        EXPECT_GT(worker->counters().received.read(), 1000u);
      const Status finished = load->finish();
      EXPECT_TRUE(finished) << finished.error().message;
    }
  }
}

// A worker without this tenant's key accepts nothing.
TEST(IngestChecks, LostRequestsAreFound) {
  const SystemClock clock;
  RingPort& port = test::ingest_port();
  const LoadOptions options;
  const auto frames =
      net::create_mempool({.name = "frames", .mbufs = options.num_mbufs(), .mbuf_bytes = 2048});
  ASSERT_TRUE(frames) << frames.error().message;
  const auto load = WorkerLoad::make(port, frames->get(), options, clock);
  ASSERT_TRUE(load) << load.error().message;
  (*load)->build_round();
  ASSERT_GT((*load)->put_burst(), 0u);
  std::array<rte_mbuf*, 8> lost;
  const uint16_t count = port.port().rx_burst(0, lost);
  rte_pktmbuf_free_bulk(lost.data(), count);
  while (!port.is_empty()) (*load)->worker().poll();
  const Status finished = (*load)->finish();
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message.find("datagrams received"), std::string::npos);
}

// Every request gets each piece once, and the number of open requests stays near that asked for.
void expect_each_piece_once(const ArrivalOrder& order) {
  Arrivals arrivals(order);
  std::map<uint64_t, std::set<uint32_t>> open;
  uint64_t complete = 0;
  bool ascending = true;
  const auto add = [&](const Arrivals::Piece& piece) {
    ASSERT_LT(piece.index, order.num_pieces);
    std::set<uint32_t>& pieces = open[piece.request];
    ascending &= piece.index == pieces.size();
    ASSERT_TRUE(pieces.insert(piece.index).second) << "a piece came twice";
    if (pieces.size() < order.num_pieces) return;
    open.erase(piece.request);
    ++complete;
  };
  for (size_t i = 0; i < arrivals.num_to_fill(); ++i) add(arrivals.next());
  EXPECT_EQ(complete, 0u);
  uint64_t sum_open = 0, num_held = arrivals.num_to_fill(), most_held = 0;
  const uint64_t count = 8 * order.num_open * order.num_pieces;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t before = complete;
    add(arrivals.next());
    sum_open += open.size();
    num_held += 1 - (complete - before) * order.num_pieces;
    most_held = std::max(most_held, num_held);
  }
  if (order.num_open > 1) {
    EXPECT_NEAR(static_cast<double>(sum_open) / static_cast<double>(count), order.num_open,
                0.1 * order.num_open + 1);
    EXPECT_LT(most_held, order.num_open * order.num_pieces / 2 + order.num_pieces)
        << "more than LoadOptions::num_mbufs() has room for";
  }
  EXPECT_EQ(ascending, !order.shuffled);
  while (const auto piece = arrivals.next_to_finish()) add(*piece);
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(complete, arrivals.num_complete());
  EXPECT_EQ(complete, arrivals.num_started());
}

TEST(Arrivals, EveryPieceComesOnce) {
  expect_each_piece_once({.num_pieces = 1, .num_open = 1});
  expect_each_piece_once({.num_pieces = 50, .num_open = 1});
  expect_each_piece_once({.num_pieces = 50, .num_open = 1, .shuffled = true});
  expect_each_piece_once({.num_pieces = 4, .num_open = 1000});
  expect_each_piece_once({.num_pieces = 50, .num_open = 7});
  expect_each_piece_once({.num_pieces = 588, .num_open = 64});
}

}  // namespace
}  // namespace itif::bench
