#include "test_eal.h"

#include <fmt/core.h>

#include <cstring>

#include "net/eal.h"
#include "net/mempool.h"

namespace itif::net::test {
namespace {
rte_mempool* g_pool = nullptr;
}

void EalTest::SetUpTestSuite() {
  if (g_pool != nullptr) return;
  const Status started =
      start_eal({"--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0"});
  ASSERT_TRUE(started) << started.error().message;
  Result<Mempool> pool = create_mempool({"test", kMbufs, 2048, -1});
  ASSERT_TRUE(pool) << pool.error().message;
  g_pool = pool->release();  // lives as long as the process
}

void EalTest::TearDown() {
  EXPECT_EQ(buffers_in_use(), 0u) << "packet buffers were leaked";
}

rte_mempool* EalTest::pool() {
  return g_pool;
}

unsigned EalTest::buffers_in_use() {
  return rte_mempool_in_use_count(g_pool);
}

rte_mbuf* EalTest::mbuf_of(std::span<const std::byte> frame) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(g_pool);
  if (mbuf == nullptr) abort();
  void* data = rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size()));
  if (!frame.empty()) std::memcpy(data, frame.data(), frame.size());
  return mbuf;
}

Frame EalTest::take(rte_mbuf* mbuf) {
  const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
  Frame bytes(data, data + mbuf->data_len);
  EXPECT_EQ(mbuf->pkt_len, mbuf->data_len);
  rte_pktmbuf_free(mbuf);
  return bytes;
}

Frame bytes_of(std::initializer_list<int> values) {
  Frame bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Frame from_hex(std::string_view hex) {
  Frame bytes;
  int high = -1;
  for (char c : hex) {
    if (!isxdigit(static_cast<unsigned char>(c))) continue;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + digit));
      high = -1;
    }
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i)
    text += fmt::format("{}{:02x}", i == 0 ? "" : " ", static_cast<unsigned>(bytes[i]));
  return text;
}

}  // namespace itif::net::test
