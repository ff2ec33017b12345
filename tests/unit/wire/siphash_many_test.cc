// Checks hashes of several inputs at once against siphash128() of each.
#include "wire/siphash_many.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "builder.h"
#include "wire/siphash.h"

namespace itif::wire {
namespace {

struct Input {
  Key key;
  test::Bytes head, tail;
};

Input random_input(Random& random, size_t head_bytes, size_t tail_bytes) {
  Input input;
  for (auto& byte : input.key) byte = static_cast<std::byte>(random.next());
  for (test::Bytes* bytes : {&input.head, &input.tail}) {
    bytes->resize(bytes == &input.head ? head_bytes : tail_bytes);
    for (auto& byte : *bytes) byte = static_cast<std::byte>(random.next());
  }
  return input;
}

class SipHashMany : public ::testing::TestWithParam<SipHashKind> {
 protected:
  void SetUp() override {
    if (!siphash_supported(GetParam())) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  void expect_same(const std::vector<Input>& inputs) {
    std::vector<SipHashInput> borrowed;
    for (const Input& input : inputs) borrowed.push_back({&input.key, input.head, input.tail});
    std::vector<std::array<std::byte, 16>> got(inputs.size() + 1), best(inputs.size() + 1);
    siphash128_many(GetParam(), borrowed, got);
    siphash128_many(borrowed, best);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto expected = siphash128(inputs[i].key, inputs[i].head, inputs[i].tail);
      ASSERT_EQ(got[i], expected) << "input " << i << " of " << inputs.size() << ": "
                                  << inputs[i].head.size() << " + " << inputs[i].tail.size();
      ASSERT_EQ(best[i], expected);
    }
    const std::array<std::byte, 16> untouched{};
    EXPECT_EQ(got.back(), untouched) << "it wrote past the last result";
  }
};

TEST_P(SipHashMany, EveryLengthBesideEveryOther) {
  Random random(1);
  std::vector<Input> inputs;
  for (size_t bytes = 0; bytes <= 200; ++bytes) inputs.push_back(random_input(random, bytes, 0));
  for (size_t bytes = 0; bytes <= 200; ++bytes) inputs.push_back(random_input(random, 0, bytes));
  for (size_t i = inputs.size(); i > 1; --i) std::swap(inputs[i - 1], inputs[random.below(i)]);
  expect_same(inputs);
}

TEST_P(SipHashMany, EverySplitOfHeadAndTail) {
  Random random(2);
  for (size_t bytes = 60; bytes < 200; bytes += 17) {
    std::vector<Input> inputs;
    for (size_t head = 0; head <= bytes; ++head)
      inputs.push_back(random_input(random, head, bytes - head));
    expect_same(inputs);
  }
}

TEST_P(SipHashMany, EveryCountOfInputs) {
  Random random(3);
  std::vector<Input> inputs;
  for (size_t count = 0; count <= 40; ++count) {
    expect_same(inputs);
    inputs.push_back(random_input(random, 50, random.below(3) * 512));
  }
}

TEST_P(SipHashMany, DatagramsOfMixedSizes) {
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    std::vector<Input> inputs;
    for (uint64_t left = random.below(70); left > 0; --left)
      inputs.push_back(random_input(random, random.below(2) == 0 ? 50 : random.below(80),
                                    random.below(2) == 0 ? 0 : random.below(1500)));
    expect_same(inputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SipHashMany,
                         ::testing::Values(SipHashKind::kOneByOne, SipHashKind::kAvx2,
                                           SipHashKind::kAvx512),
                         [](const auto& info) {
                           switch (info.param) {
                             case SipHashKind::kAvx2: return "Avx2";
                             case SipHashKind::kAvx512: return "Avx512";
                             default: return "OneByOne";
                           }
                         });

}  // namespace
}  // namespace itif::wire
