// EAL, a packet pool and frames for tests, without root, hugepages or devices of the machine.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "net/address.h"

namespace itif::net::test {

using Frame = std::vector<std::byte>;

// Starts EAL once per process. Every test that touches an mbuf derives from this or calls start().
class EalTest : public testing::Test {
 public:
  static constexpr unsigned kMbufs = 2047;
  static void SetUpTestSuite();

 protected:
  // Fails the test if it leaked a buffer.
  void TearDown() override;
  static rte_mempool* pool();
  static unsigned buffers_in_use();
  // A received frame.
  static rte_mbuf* mbuf_of(std::span<const std::byte> frame);
  // The bytes of a frame to send; frees it.
  static Frame take(rte_mbuf* mbuf);
};

Frame bytes_of(std::initializer_list<int> values);
// Parses "00 11 22…", spaced in any way.
Frame from_hex(std::string_view hex);
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace itif::net::test
