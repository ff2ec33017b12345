// Tables in huge pages: contents and alignment of every size, small and large, and elements that
// cannot be moved.
#include "base/huge_vector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>

namespace itif {
namespace {

TEST(HugeVector, KeepsItsElementsAtEverySize) {
  for (const size_t bytes : {size_t{8}, kHugePageBytes / 2 - 8, kHugePageBytes / 2, kHugePageBytes,
                             kHugePageBytes + 8, 5 * kHugePageBytes}) {
    HugeVector<uint64_t> numbers(bytes / 8);
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), uint64_t{0}), 0u);
    std::iota(numbers.begin(), numbers.end(), 1);
    const uint64_t n = numbers.size();
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), uint64_t{0}), n * (n + 1) / 2);
    numbers.push_back(7);  // to a larger array
    EXPECT_EQ(numbers.back(), 7u);
    EXPECT_EQ(numbers.front(), 1u);
  }
}

TEST(HugeVector, AlignsLargeTablesToHugePages) {
  for (int i = 0; i < 8; ++i) {
    const HugeVector<std::byte> table(kHugePageBytes + 1 + static_cast<size_t>(i) * 4096);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % kHugePageBytes, 0u);
  }
}

struct alignas(64) Row {
  std::atomic<uint64_t> count{3};
};

TEST(HugeVector, HoldsElementsThatCannotMove) {
  for (const size_t count : {size_t{3}, size_t{100'000}}) {
    HugeVector<Row> rows(count);
    EXPECT_EQ(rows.back().count.load(), 3u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&rows[1]) % alignof(Row), 0u);
  }
}

// Returns the flags that Linux keeps for the mapping of this process that starts at the address;
// empty: not known. Neighbouring mappings with equal flags are one.
std::string mapping_flags(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    const size_t dash = line.find('-');
    if (dash != std::string::npos && line.find_first_not_of("0123456789abcdef") == dash) {
      const auto at = reinterpret_cast<uintptr_t>(address);
      is_inside = std::stoull(line.substr(0, dash), nullptr, 16) <= at &&
                  at < std::stoull(line.substr(dash + 1), nullptr, 16);
    }
    if (is_inside && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

TEST(HugeVector, AsksForHugePages) {
  const HugeVector<std::byte> table(8 * kHugePageBytes);
  const std::string flags = mapping_flags(table.data());
  if (flags.empty()) GTEST_SKIP() << "no /proc/self/smaps";
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
}

TEST(HugeVector, RefusesSizesBeyondTheAddressSpace) {
  HugePageAllocator<uint64_t> allocator;
  EXPECT_THROW(allocator.allocate(SIZE_MAX / 8), std::bad_alloc);
  EXPECT_THROW(allocator.allocate(SIZE_MAX / 64), std::bad_alloc);
}

}  // namespace
}  // namespace itif
