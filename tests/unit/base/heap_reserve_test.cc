// A thread's reserve of malloc's memory: small allocations do not grow the process's memory map.
#include "base/heap_reserve.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace itif {
namespace {

// The bytes that the process may write, as /proc/self/maps has them.
uint64_t writable_bytes() {
  std::ifstream maps("/proc/self/maps");
  uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    uint64_t from = 0, to = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, rights) == 3 && rights[1] == 'w')
      bytes += to - from;
  }
  return bytes;
}

// Returns by how much a new thread grows the memory that may be written with 2 MiB in pieces.
uint64_t growth(std::optional<size_t> reserved_bytes) {
  constexpr size_t kPieces = 1024, kPieceBytes = 2048;
  uint64_t grown = 0;
  std::thread thread([&] {
    std::optional<HeapReserve> reserve;
    if (reserved_bytes) reserve.emplace(*reserved_bytes);
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    pieces.reserve(kPieces);
    const uint64_t before = writable_bytes();
    for (size_t i = 0; i < kPieces; ++i)
      pieces.push_back(std::make_unique<std::byte[]>(kPieceBytes));
    grown = writable_bytes() - before;
  });
  thread.join();
  return grown;
}

TEST(HeapReserve, SmallAllocationsDoNotGrowTheArena) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has its own malloc";
#endif
  EXPECT_GT(growth(std::nullopt), 1u << 20);
  EXPECT_EQ(growth(4 << 20), 0u);
}

}  // namespace
}  // namespace itif
