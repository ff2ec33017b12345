#include "worker_fixture.h"

#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>

#include "request_frame.h"
#include "start_eal.h"

namespace itif::pipeline::test {
namespace {

rte_mempool* pool = nullptr;
rte_ring* to_worker = nullptr;
rte_ring* from_worker = nullptr;
std::unique_ptr<net::Port> port;

}  // namespace

void WorkerTest::SetUpTestSuite() {
  if (pool != nullptr) return;
  execution::test::start_test_eal();
  auto made = net::create_mempool({"test", 8191, 2048, -1});
  ASSERT_TRUE(made) << made.error().message;
  pool = made->release();  // lives as long as the process
  to_worker = rte_ring_create("to_worker", 4096, SOCKET_ID_ANY, 0);
  from_worker = rte_ring_create("from_worker", 4096, SOCKET_ID_ANY, 0);
  ASSERT_GE(rte_eth_from_rings("itif_test", &to_worker, 1, &from_worker, 1, 0), 0);
  auto opened = net::Port::open({.device = "net_ring_itif_test", .pool = pool});
  ASSERT_TRUE(opened) << opened.error().message;
  port = std::make_unique<net::Port>(std::move(*opened));
}

void WorkerTest::SetUp() {
  shared = std::make_unique<Shared>(clock);
  options.pool = pool;
  options.local =
      net::make_local_addresses(port->info().mac,
                                {.ipv4 = {"198.18.0.1"}, .ipv6 = {}, .udp_port = 9009, .vlan = 0})
          .value();
  options.reassembly.max_contexts = 256;
  options.reassembly.tenant_max_contexts = 100;
  options.reassembly.stall_ns = 30'000'000;
  options.seed = 1;
  configure();
  auto made = Worker::create(*port, *shared, options);
  ASSERT_TRUE(made) << made.error().message;
  worker = std::move(*made);
  auto owned = std::make_unique<FakeGroup>();
  group = owned.get();
  ReturnRing* returns[] = {&worker->returns()};
  auto staged = execution::GroupStage::create("fake", std::move(owned), device, clock, returns, {});
  ASSERT_TRUE(staged) << staged.error().message;
  stage = std::move(*staged);
  shared->groups.set(0, &stage->inbox());
  publish({default_tenant()});
}

void WorkerTest::TearDown() {
  run();
  clock.advance_ns(3'000'000'000);  // past every timeout
  run();
  answers();
  const WorkerFigures f = figures();
  EXPECT_EQ(f.held, 0u);
  EXPECT_EQ(f.received, f.forwarded + f.held + f.total_repeated() + f.total_dropped());
  const TenantFigures t = tenant_figures({&worker, 1}, default_tenant().index);
  EXPECT_EQ(t.held, 0u);
  EXPECT_EQ(t.received, t.forwarded + t.held + t.total_repeated() + t.total_dropped());
  EXPECT_EQ(lease->num_in_flight(), 0u);
  stage.reset();
  worker.reset();
  EXPECT_EQ(buffers_in_use(), 0u) << "packet buffers were leaked";
}

unsigned WorkerTest::buffers_in_use() {
  return rte_mempool_in_use_count(pool);
}

tenant::Tenant WorkerTest::default_tenant() const {
  tenant::Tenant t;
  t.id = kTenant;
  t.index = 3;
  t.auth = static_cast<uint8_t>(wire::Auth::kHeader);
  t.key.epoch = 5;
  t.key.bytes = kKey;
  t.max_payload_bytes = 16384;
  t.payload_kinds = 1u << 1 | 1u << 2 | 1u << 3;
  t.lease = lease;
  return t;
}

void WorkerTest::publish(std::vector<tenant::Tenant> tenants, tenant::Intake intake) {
  shared->tenants.publish(
      std::make_unique<tenant::Snapshot>(std::move(tenants), ++generation_, intake));
}

wire::Header WorkerTest::request(uint64_t id, uint32_t total_bytes) const {
  wire::Header header;
  header.type = wire::Type::kRequest;
  header.auth = wire::Auth::kHeader;
  header.tenant_id = kTenant;
  header.session = 77;
  header.request_id = id;
  header.total_bytes = total_bytes;
  header.payload_kind = wire::PayloadKind::kTokensU16;
  header.key_epoch = 5;
  header.fragment_bytes = 64;
  header.token = token_of(header.session);
  return header;
}

uint64_t WorkerTest::token_of(uint32_t session) const {
  return wire::address_token(shared->token_secret,
                             {.address = std::as_bytes(std::span(kClientIp)),
                              .port = kClientPort,
                              .session = session,
                              .receiver = 0},
                             clock.now_ns() / kTokenPeriodNs);
}

Bytes WorkerTest::token_payload(std::initializer_list<uint16_t> ids) {
  Bytes bytes(ids.size() * 2);
  std::memcpy(bytes.data(), std::data(ids), bytes.size());
  return bytes;
}

Bytes WorkerTest::token_payload(uint32_t count) {
  Bytes bytes(count * 2);
  for (uint16_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * 2, &i, 2);
  return bytes;
}

Bytes WorkerTest::seal(const wire::Header& header, std::span<const std::byte> payload,
                       const wire::Key& key) {
  Bytes out(wire::header_size(header.auth) + payload.size());
  EXPECT_EQ(wire::build(header, payload, key, out), out.size());
  return out;
}

std::vector<Bytes> WorkerTest::datagrams(const wire::Header& header, const Bytes& payload) const {
  std::vector<Bytes> pieces;
  for (size_t offset = 0; offset < payload.size(); offset += header.fragment_bytes) {
    wire::Header piece = header;
    piece.offset = static_cast<uint32_t>(offset);
    const size_t bytes = std::min<size_t>(header.fragment_bytes, payload.size() - offset);
    pieces.push_back(seal(piece, std::span(payload).subspan(offset, bytes)));
  }
  return pieces;
}

void WorkerTest::send(const Bytes& datagram) {
  static uint64_t next_sequence = 1'000'000;
  Bytes copy = datagram;
  wire::Datagram parsed;
  const bool is_valid = wire::parse(copy, parsed) == wire::ParseError::kNone;
  const wire::Auth auth = parsed.header.auth;
  if (is_valid && parsed.header.token != 0 &&
      (auth == wire::Auth::kNone || wire::open(kKey, parsed))) {
    parsed.header.sequence = next_sequence++;
    copy = seal(parsed.header, Bytes(parsed.payload.begin(), parsed.payload.end()));
  }
  replay(copy);
}

void WorkerTest::replay(const Bytes& datagram) {
  send_frame(ipv4_frame(datagram, port->info().mac));
}

void WorkerTest::send_frame(const Bytes& frame) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
  ASSERT_NE(mbuf, nullptr);
  std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(),
              frame.size());
  ASSERT_EQ(rte_ring_enqueue(to_worker, mbuf), 0);
}

void WorkerTest::poll_worker() {
  worker->poll();
}

void WorkerTest::run() {
  for (int rest = 0; rest < 3;) {
    clock.advance_ns(1000);
    rest = worker->poll() + stage->poll() == 0 ? rest + 1 : 0;
  }
}

std::vector<Bytes> WorkerTest::sent_frames() {
  std::vector<Bytes> out;
  void* object = nullptr;
  while (rte_ring_dequeue(from_worker, &object) == 0) {
    auto* mbuf = static_cast<rte_mbuf*>(object);
    const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
    out.emplace_back(data, data + mbuf->data_len);
    rte_pktmbuf_free(mbuf);
  }
  return out;
}

std::vector<Answer> WorkerTest::answers() {
  std::vector<Answer> out;
  for (const Bytes& frame : sent_frames()) {
    wire::Datagram datagram;
    const auto bytes = std::span(frame).subspan(kFrameHeaders);
    EXPECT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.auth != wire::Auth::kNone) {
      EXPECT_TRUE(wire::open(kKey, datagram));
    }
    out.push_back({datagram.header, Bytes(datagram.payload.begin(), datagram.payload.end())});
  }
  return out;
}

}  // namespace itif::pipeline::test
