// Ports on in-process devices: net_ring (loops sent frames back) and net_null (receives endless
// frames).
#include "net/port.h"

#include <rte_dev.h>
#include <rte_log.h>

#include <algorithm>
#include <set>
#include <vector>

#include "net/eal_log.h"
#include "net/frame.h"
#include "net/mempool.h"
#include "net/transmit_queue.h"
#include "net/tx_buffer.h"
#include "packet.h"

namespace itif::net::test {
namespace {

uint64_t next_sequence = 1;

class PortTest : public EalTest {
 protected:
  // Makes a new device for every use, because DPDK cannot reopen a closed one.
  static std::string device(const std::string& driver) {
    static int number = 0;
    const std::string name = driver + "_" + std::to_string(++number);
    EXPECT_EQ(rte_eal_hotplug_add("vdev", name.c_str(), ""), 0);
    return name;
  }
  static PortConfig config(const std::string& device) {
    PortConfig config;
    config.device = device;
    config.pool = pool();
    return config;
  }
};

TEST_F(PortTest, RingDeviceReturnsSentFrames) {
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_EQ(port->info().driver, "net_ring");
  EXPECT_EQ(port->info().num_queues, 1);
  EXPECT_FALSE(port->info().partial_checksums);
  EXPECT_TRUE(port->link().up);
  {
    TxBuffer buffer(*port, 0);
    EXPECT_EQ(buffer.flush(0), 0u);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
    EXPECT_EQ(buffer.pending(), 3u);
    EXPECT_EQ(buffer.flush(0), 3u);
    EXPECT_EQ(buffer.sent(), 3u);
  }
  rte_mbuf* mbufs[8];
  ASSERT_EQ(port->rx_burst(0, mbufs), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(mbufs[i]), Packet().build());
  EXPECT_EQ(port->rx_burst(0, mbufs), 0);
  const PortStats stats = port->stats();
  EXPECT_EQ(stats.tx_packets, 3u);
  EXPECT_EQ(stats.rx_packets, 3u);
  EXPECT_EQ(stats.rx_missed, 0u);
}

TEST_F(PortTest, FullQueueKeepsFramesAndDeadQueueDropsThem) {
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  // Without a reader, the ring of the device fills up.
  size_t in_ring = 0;
  for (rte_mbuf* mbuf; port->tx_burst(0, {&(mbuf = mbuf_of(Packet().build())), 1}) == 1 ||
                       (rte_pktmbuf_free(mbuf), false);)
    ++in_ring;
  TxBuffer buffer(*port, 0);
  for (size_t i = 0; i < TxBuffer::kCapacity; ++i)
    EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_EQ(buffer.room(), 0u);
  EXPECT_FALSE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_EQ(buffer.dropped(), 1u);
  // One free place in the ring lets one frame out.
  rte_mbuf* mbufs[64];
  ASSERT_EQ(port->rx_burst(0, std::span(mbufs).first(1)), 1);
  rte_pktmbuf_free(mbufs[0]);
  EXPECT_EQ(buffer.flush(0), 1u);
  EXPECT_EQ(buffer.pending(), TxBuffer::kCapacity - 1);
  EXPECT_EQ(buffer.flush(1), 0u);
  // push() offers the frames, too: the time begins again with each frame that the device takes.
  EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
  ASSERT_EQ(port->rx_burst(0, std::span(mbufs).first(1)), 1);
  rte_pktmbuf_free(mbufs[0]);
  EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_EQ(buffer.pending(), TxBuffer::kCapacity);
  EXPECT_EQ(buffer.flush(1 + TxBuffer::kMaxRefusalNs), 0u);
  EXPECT_EQ(buffer.flush(2 * TxBuffer::kMaxRefusalNs), 0u);
  EXPECT_EQ(buffer.pending(), TxBuffer::kCapacity);
  EXPECT_EQ(buffer.flush(1 + 2 * TxBuffer::kMaxRefusalNs), 0u);
  EXPECT_EQ(buffer.pending(), 0u);
  EXPECT_EQ(buffer.dropped(), 1 + TxBuffer::kCapacity);
  EXPECT_EQ(buffer.sent(), 2u);
  size_t drained = 0;
  while (const uint16_t count = port->rx_burst(0, mbufs)) {
    rte_pktmbuf_free_bulk(mbufs, count);
    drained += count;
  }
  EXPECT_EQ(drained, in_ring);
}

TEST_F(PortTest, ResponsesShareTheTransmitQueue) {
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  ResponseCache cache({});
  TxBuffer buffer(*port, 0);
  std::vector<uint64_t> order;
  {
    TransmitQueue queue(3, 8, cache);
    const auto push = [&](uint64_t id, uint32_t bytes) {
      wire::Header header;
      header.type = wire::Type::kResponse;
      header.request_id = id;
      header.total_bytes = bytes;
      header.fragment_bytes = 64;
      const request::ResultBuffer result{static_cast<std::byte*>(calloc(bytes, 1)), bytes};
      const auto tenant = static_cast<uint32_t>(id);
      TransmitQueue::Job* job =
          queue.push(*cache.put({hashed({0, 0, id}, 1), header, result, tenant, false, 1}));
      if (job == nullptr) return false;
      job->header = header;
      job->cursor = Cursor::whole(header);
      return true;
    };
    EXPECT_TRUE(push(1, 64 * 300));
    EXPECT_TRUE(push(2, 64 * 2));
    EXPECT_TRUE(push(3, 64 * 20));
    EXPECT_FALSE(push(4, 64));  // full: its cache entry is removed
    EXPECT_EQ(cache.num_entries(), 3u);
    const auto round = [&] {
      queue.poll(buffer, pool(), {}, 1, next_sequence);
      while (buffer.flush(0) > 0) {
        rte_mbuf* mbufs[64];
        while (const uint16_t count = port->rx_burst(0, mbufs))
          for (uint16_t i = 0; i < count; ++i) {
            const auto frame = take(mbufs[i]);
            wire::Datagram datagram;
            ASSERT_EQ(wire::parse(std::span(frame).subspan(42), datagram), wire::ParseError::kNone);
            order.push_back(datagram.header.request_id);
          }
      }
    };
    round();
    ASSERT_EQ(order.size(), TxBuffer::kCapacity);
    EXPECT_EQ(queue.size(), 1u);  // the short ones are done
    const std::vector<uint64_t> begin(order.begin(), order.begin() + 19);
    EXPECT_EQ(begin,
              (std::vector<uint64_t>{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 1}));
    round();
    EXPECT_TRUE(push(5, 64));
    round();
    EXPECT_EQ(queue.size(), 0u);
    EXPECT_EQ(order.size(), 300u + 2 + 20 + 1);
    EXPECT_TRUE(push(6, 64 * 3));  // still queued: the destructor releases it
  }
  EXPECT_EQ(cache.num_entries(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

// However many answers one tenant has queued, another tenant's is served after one quantum.
TEST_F(PortTest, TenantsTakeTurnsInTheTransmitQueue) {
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  ResponseCache cache({});
  TxBuffer buffer(*port, 0);
  TransmitQueue queue(64, 2, cache);
  const auto push = [&](uint32_t tenant, uint64_t id) {
    constexpr uint32_t kBytes = 64 * TransmitQueue::kQuantum;
    wire::Header header;
    header.type = wire::Type::kResponse;
    header.request_id = id;
    header.tenant_id = tenant;
    header.total_bytes = kBytes;
    header.fragment_bytes = 64;
    const request::ResultBuffer result{static_cast<std::byte*>(calloc(kBytes, 1)), kBytes};
    TransmitQueue::Job* job =
        queue.push(*cache.put({hashed({tenant, 0, id}, 1), header, result, tenant, false, 1}));
    if (job == nullptr) return false;
    job->header = header;
    job->cursor = Cursor::whole(header);
    return true;
  };
  uint64_t greedy = 0;
  while (push(0, greedy)) ++greedy;
  EXPECT_EQ(greedy, 32u);  // a tenant may hold at most as many as remain free
  EXPECT_TRUE(push(1, 1));
  queue.poll(buffer, pool(), {}, 1, next_sequence);
  buffer.flush(0);
  std::vector<uint32_t> order;
  rte_mbuf* mbufs[64];
  while (const uint16_t count = port->rx_burst(0, mbufs)) {
    for (uint16_t i = 0; i < count; ++i) {
      const auto frame = take(mbufs[i]);
      wire::Datagram datagram;
      ASSERT_EQ(wire::parse(std::span(frame).subspan(42), datagram), wire::ParseError::kNone);
      order.push_back(datagram.header.tenant_id);
    }
  }
  const size_t quantum = TransmitQueue::kQuantum;
  ASSERT_GE(order.size(), 3 * quantum);
  EXPECT_EQ(std::count(order.begin(), order.begin() + quantum, 0u), quantum);
  EXPECT_EQ(std::count(order.begin() + quantum, order.begin() + 2 * quantum, 1u), quantum);
}

// A timed job ends with the poll that builds its last datagram; a repeat has no times.
TEST_F(PortTest, TheTransmitQueueReportsTimedJobsThatEnd) {
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  ResponseCache cache({});
  TxBuffer buffer(*port, 0);
  TransmitQueue queue(8, 8, cache);
  const auto push = [&](uint64_t id, uint32_t pieces, uint64_t arrival_ns) {
    wire::Header header;
    header.type = wire::Type::kResponse;
    header.tenant_id = 7;
    header.session = 8;
    header.request_id = id;
    header.total_bytes = 64 * pieces;
    header.fragment_bytes = 64;
    const request::ResultBuffer result{static_cast<std::byte*>(calloc(64 * pieces, 1)),
                                       64 * pieces};
    TransmitQueue::Job* job =
        queue.push(*cache.put({hashed({7, 8, id}, 1), header, result, 3, false, 1}));
    if (job == nullptr) return false;
    job->header = header;
    job->cursor = Cursor::whole(header);
    job->times.arrival_ns = arrival_ns;
    job->num_tokens = 5;
    return true;
  };
  const auto ended = [&](uint64_t now_ns) {
    queue.poll(buffer, pool(), {}, now_ns, next_sequence);
    std::vector<uint64_t> ids;
    for (const TransmitQueue::Ended& one : queue.ended()) {
      EXPECT_EQ(one.tenant_index, 3u);
      EXPECT_EQ(one.job->header.tenant_id, 7u);
      EXPECT_EQ(one.job->header.session, 8u);
      EXPECT_EQ(one.job->num_tokens, 5u);
      EXPECT_EQ(one.job->times.first_out_ns, 100u);  // of the poll that built the first datagram
      ids.push_back(one.job->header.request_id);
    }
    buffer.flush(0);
    rte_mbuf* mbufs[64];
    while (const uint16_t count = port->rx_burst(0, mbufs))
      for (uint16_t i = 0; i < count; ++i) take(mbufs[i]);
    return ids;
  };
  EXPECT_TRUE(push(1, 2, 50));
  EXPECT_TRUE(push(2, 2, 0));
  EXPECT_TRUE(push(3, 2 * TxBuffer::kCapacity, 60));
  EXPECT_EQ(ended(100), (std::vector<uint64_t>{1}));
  EXPECT_EQ(ended(200), (std::vector<uint64_t>{}));
  EXPECT_EQ(ended(300), (std::vector<uint64_t>{3}));
  EXPECT_EQ(ended(400), (std::vector<uint64_t>{})) << "each is reported once";
}

TEST_F(PortTest, ASinkTakesTheFramesInsteadOfTheQueue) {
  struct Sink final : FrameSink {
    uint16_t send(std::span<rte_mbuf* const> mbufs) noexcept override {
      const auto count = static_cast<uint16_t>(std::min(room, mbufs.size()));
      taken.insert(taken.end(), mbufs.begin(), mbufs.begin() + count);
      room -= count;
      return count;
    }
    size_t room = 2;
    std::vector<rte_mbuf*> taken;
  };
  auto port = Port::open(config(device("net_ring")));
  ASSERT_TRUE(port) << port.error().message;
  Sink sink;
  TxBuffer buffer(*port, 0, &sink);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_EQ(buffer.flush(0), 2u);
  EXPECT_EQ(buffer.pending(), 1u);
  EXPECT_EQ(buffer.flush(0), 0u);
  EXPECT_EQ(buffer.flush(2 * TxBuffer::kMaxRefusalNs), 0u);
  EXPECT_EQ(buffer.dropped(), 0u) << "the sink may pause";
  while (buffer.room() > 0) EXPECT_TRUE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_FALSE(buffer.push(mbuf_of(Packet().build())));
  EXPECT_EQ(buffer.dropped(), 1u);
  EXPECT_EQ(buffer.sent(), 0u) << "a port sends them later";
  for (rte_mbuf* mbuf : sink.taken) EXPECT_EQ(take(mbuf), Packet().build());
  rte_mbuf* mbufs[4];
  EXPECT_EQ(port->rx_burst(0, mbufs), 0);
}

TEST_F(PortTest, QueueCountIsLimitedByTheDevice) {
  PortConfig wanted = config(device("net_ring"));
  wanted.num_queues = 1024;
  auto port = Port::open(wanted);
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_GE(port->info().num_queues, 1);
  EXPECT_LT(port->info().num_queues, 1024);
}

// Without RSS a NIC would put all flows into its first queue.
TEST(UsableQueues, AreThoseOverWhichFlowsSpread) {
  EXPECT_EQ(usable_queues(4, 16, true, "net_ice"), 4);
  EXPECT_EQ(usable_queues(4, 2, true, "net_ice"), 2);
  EXPECT_EQ(usable_queues(4, 16, false, "net_ice"), 1);
  EXPECT_EQ(usable_queues(4, 16, false, "net_af_packet"), 4) << "the kernel spreads them";
  EXPECT_EQ(usable_queues(1, 16, true, "net_ice"), 1);
}

TEST_F(PortTest, NullDeviceFramesAreParsed) {
  auto port = Port::open(config(device("net_null")));
  ASSERT_TRUE(port) << port.error().message;
  rte_mbuf* mbufs[32];
  ASSERT_EQ(port->rx_burst(0, mbufs), 32);
  LocalAddresses local = local_addresses();
  local.mac = {};
  for (rte_mbuf* mbuf : mbufs) {
    net::Frame frame;
    EXPECT_NE(parse_frame(*mbuf, false, local, frame), DropReason::kNone);
    rte_pktmbuf_free(mbuf);
  }
}

TEST_F(PortTest, MovesAndCloses) {
  auto port = Port::open(config(device("net_null")));
  ASSERT_TRUE(port) << port.error().message;
  const std::string name = port->info().device;
  {
    Port moved = std::move(*port);
    EXPECT_EQ(moved.info().device, name);
  }
  EXPECT_FALSE(Port::open(config(name)));  // closed
}

TEST_F(PortTest, ErrorsForWrongDevicesAndSizesNameTheRemedy) {
  const auto unknown = Port::open(config("net_tap9"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_NE(unknown.error().message.find("'net_tap9'"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("eal.args"), std::string::npos);

  // EAL starts without a NIC that fails; our message must quote EAL's reason.
  capture_eal_log();
  rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "EAL: 0000:ff:00.0 VFIO group is not viable!\n");
  release_eal_log();
  const auto absent = Port::open(config("0000:ff:00.0"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_NE(absent.error().message.find("group is not viable"), std::string::npos)
      << absent.error().message;

  PortConfig jumbo = config(device("net_null"));
  jumbo.mtu = 9000;
  const auto large = Port::open(jumbo);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kInvalidArgument);
  EXPECT_NE(large.error().message.find("mbuf_bytes"), std::string::npos);
  EXPECT_NE(large.error().message.find("9022"), std::string::npos);
}

// mlx5's multi-packet queues attach memory of such a pool to our buffers.
TEST_F(PortTest, PacketMemoryIncludesPoolsOfDrivers) {
  std::vector<Mempool> ours;
  ours.push_back(create_mempool({"ours", 64, 2048, -1}).value());
  const Mempool drivers = create_mempool({"port-0-mprq", 64, 2048, -1}).value(),
                others = create_mempool({"others", 64, 2048, -1}).value();
  const std::vector<std::span<std::byte>> memory = packet_memory(ours);
  const auto holds = [&](const Mempool& pool) {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool.get());
    const auto* const data = static_cast<const std::byte*>(packet->buf_addr);
    rte_pktmbuf_free(packet);
    return std::ranges::any_of(memory, [&](std::span<std::byte> chunk) {
      return data >= chunk.data() && data < chunk.data() + chunk.size();
    });
  };
  EXPECT_TRUE(holds(ours[0]));
  EXPECT_TRUE(holds(drivers));
  EXPECT_FALSE(holds(others));
}

TEST_F(PortTest, CountsPacketBuffersInUse) {
  const Mempool pool = create_mempool({"counted", 64, 2048, -1}).value();
  EXPECT_EQ(mbufs_in_use(*pool), 0u);
  rte_mbuf* const first = rte_pktmbuf_alloc(pool.get());
  rte_mbuf* const second = rte_pktmbuf_alloc(pool.get());
  EXPECT_EQ(mbufs_in_use(*pool), 2u);
  rte_pktmbuf_free(first);  // into this thread's cache
  EXPECT_EQ(mbufs_in_use(*pool), 1u);
  rte_pktmbuf_free(second);
  EXPECT_EQ(mbufs_in_use(*pool), 0u);
}

TEST_F(PortTest, RefusesPoolsOfImpossibleSizes) {
  EXPECT_EQ(create_mempool({"p1", 1, 2048, -1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(create_mempool({"p2", 1024, 1u << 20, -1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(create_mempool({"test", 1024, 2048, -1}).error().code, Code::kAlreadyExists);
  const auto huge = create_mempool({"p3", 1u << 20, 2048, -1});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::kResourceExhausted) << huge.error().message;
  EXPECT_NE(huge.error().message.find("nr_hugepages"), std::string::npos);
  EXPECT_TRUE(create_mempool({"p4", 512, 1024, -1}));
}

}  // namespace
}  // namespace itif::net::test
