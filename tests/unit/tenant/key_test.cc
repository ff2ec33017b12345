#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "tenant/record.h"

namespace itif::tenant {
namespace {

TEST(KeyTest, IsOverwrittenWhenItIsFreed) {
  alignas(Key) std::array<std::byte, sizeof(Key)> memory{};
  Key* const key = new (memory.data()) Key;
  key->bytes.fill(std::byte{0xa5});
  const auto is_secret = [](std::byte byte) { return byte == std::byte{0xa5}; };
  ASSERT_EQ(std::ranges::count_if(memory, is_secret), 16);
  std::destroy_at(key);
  EXPECT_EQ(std::ranges::count_if(memory, is_secret), 0);
}

TEST(KeyTest, ACopyIsIndependent) {
  Key copy;
  {
    Key key;
    key.epoch = 3;
    key.bytes.fill(std::byte{7});
    copy = key;
  }
  EXPECT_EQ(copy.epoch, 3);
  EXPECT_EQ(copy.bytes[15], std::byte{7});
}

}  // namespace
}  // namespace itif::tenant
