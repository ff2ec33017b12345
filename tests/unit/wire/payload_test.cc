// Ranges, status texts, image prefixes, classes: round trips and every kind of invalid payload.
#include "wire/payload.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "builder.h"
#include "wire/classes.h"
#include "wire/geometry.h"
#include "wire/ranges.h"

namespace itif::wire {
namespace {

using test::Bytes;

size_t parse_as(std::initializer_list<Range> ranges, uint32_t total_bytes) {
  Bytes payload(ranges.size() * sizeof(Range));
  if (!payload.empty()) std::memcpy(payload.data(), ranges.begin(), payload.size());
  std::array<Range, kMaxRanges> out;
  const size_t count = parse_ranges(payload, total_bytes, out);
  // The writer accepts exactly the ranges that the reader accepts.
  Bytes built(payload.size());
  const size_t bytes = build_ranges(std::span(ranges.begin(), ranges.size()), total_bytes, built);
  EXPECT_EQ(bytes, count == 0 ? 0 : payload.size());
  if (count != 0) {
    EXPECT_EQ(built, payload);
    EXPECT_EQ(std::memcmp(out.data(), payload.data(), payload.size()), 0);
  }
  return count;
}

TEST(Ranges, AcceptsAscendingAlignedRangesWithinTheMessage) {
  EXPECT_EQ(parse_as({{0, 4}}, 4), 1u);
  EXPECT_EQ(parse_as({{0, 3}}, 3), 1u);
  EXPECT_EQ(parse_as({{4, 6}}, 10), 1u);
  EXPECT_EQ(parse_as({{0, 4}, {8, 4}, {16, 5}}, 21), 3u);
  EXPECT_EQ(parse_as({{0, 4}, {4, 4}}, 100), 2u);  // touching is not overlapping
  EXPECT_EQ(parse_as({{0, kMaxTotalBytes}}, kMaxTotalBytes), 1u);
}

TEST(Ranges, RefusesEverythingElse) {
  EXPECT_EQ(parse_as({}, 100), 0u);
  EXPECT_EQ(parse_as({{0, 0}}, 100), 0u);
  EXPECT_EQ(parse_as({{2, 4}}, 100), 0u);
  EXPECT_EQ(parse_as({{0, 6}}, 100), 0u);           // ends off a multiple of 4, within the message
  EXPECT_EQ(parse_as({{0, 104}}, 100), 0u);         // past the end
  EXPECT_EQ(parse_as({{100, 4}}, 100), 0u);         // starts at the end
  EXPECT_EQ(parse_as({{8, 4}, {0, 4}}, 100), 0u);   // descending
  EXPECT_EQ(parse_as({{0, 8}, {4, 8}}, 100), 0u);   // overlapping
  EXPECT_EQ(parse_as({{0, 4}, {0, 4}}, 100), 0u);   // twice
  EXPECT_EQ(parse_as({{4, 0xfffffffc}}, 100), 0u);  // the sum wraps around
  EXPECT_EQ(parse_as({{0, 4}, {0xfffffffc, 8}}, 100), 0u);
  EXPECT_EQ(parse_as({{0, 4}}, 0), 0u);
}

TEST(Ranges, CountsAreBounded) {
  Bytes payload((kMaxRanges + 1) * sizeof(Range));
  for (uint32_t i = 0; i <= kMaxRanges; ++i) {
    const Range range{i * 8, 4};
    std::memcpy(payload.data() + i * sizeof range, &range, sizeof range);
  }
  std::array<Range, kMaxRanges> out;
  const std::span<const std::byte> all(payload);
  EXPECT_EQ(parse_ranges(all.first(kMaxRanges * 8), 1000, out), kMaxRanges);
  EXPECT_EQ(parse_ranges(all, 1000, out), 0u);
  EXPECT_EQ(parse_ranges(all.first(12), 1000, out), 0u);
  EXPECT_EQ(parse_ranges(all.first(7), 1000, out), 0u);
}

TEST(Geometry, PiecesCoverTheMessage) {
  for (uint32_t total : {0u, 1u, 63u, 64u, 65u, 1368u, 4000u, kMaxTotalBytes})
    for (uint32_t fragment : {64u, 1368u, 8896u}) {
      uint64_t sum = 0;
      const uint32_t pieces = num_pieces(total, fragment);
      for (uint32_t i = 0; i < pieces; ++i) sum += piece_bytes(total, fragment, i * fragment);
      EXPECT_EQ(sum, total);
      EXPECT_GE(pieces, 1u);
    }
  EXPECT_EQ(fragment_bytes_for_mtu(9000), 8868u);
  EXPECT_EQ(fragment_bytes_for_mtu(1280), 1148u);
  EXPECT_EQ(fragment_bytes_for_mtu(65535), kMaxFragmentBytes);
  EXPECT_EQ(fragment_bytes_for_mtu(194), 64u);
  EXPECT_EQ(fragment_bytes_for_mtu(193), 0u);
  EXPECT_EQ(fragment_bytes_for_mtu(0), 0u);
}

TEST(Image, PrefixMustAccountForEveryByte) {
  ImagePrefix image{.height = 2, .width = 3, .channels = 3};
  Bytes payload(sizeof image + 18);
  std::memcpy(payload.data(), &image, sizeof image);
  ImagePrefix out;
  EXPECT_TRUE(parse_image_prefix(PayloadKind::kImageU8, payload, 26, out));
  EXPECT_EQ(out.width, 3);
  EXPECT_TRUE(parse_image_prefix(PayloadKind::kImageF32, payload, 80, out));
  EXPECT_FALSE(parse_image_prefix(PayloadKind::kImageF32, payload, 26, out));
  EXPECT_FALSE(parse_image_prefix(PayloadKind::kImageU8, payload, 25, out));
  EXPECT_FALSE(parse_image_prefix(PayloadKind::kRaw, payload, 26, out));
  EXPECT_FALSE(parse_image_prefix(PayloadKind::kImageU8, std::span(payload).first(7), 26, out));
  image.reserved = 1;
  std::memcpy(payload.data(), &image, sizeof image);
  EXPECT_FALSE(parse_image_prefix(PayloadKind::kImageU8, payload, 26, out));
  EXPECT_EQ(image_payload_bytes(PayloadKind::kImageU8, {0, 3, 3, 0}), 0u);
  EXPECT_EQ(image_payload_bytes(PayloadKind::kImageF32, {65535, 65535, 65535, 0}), 0u);
  EXPECT_EQ(image_payload_bytes(PayloadKind::kImageU8, {2048, 2730, 3, 0}), 16773120u + 8);
}

TEST(PayloadSize, EachKindHasARule) {
  using enum PayloadKind;
  const struct {
    PayloadKind kind;
    uint32_t total;
    bool valid;
  } cases[] = {{kNone, 0, true},
               {kNone, 4, false},
               {kTokensU16, 0, false},
               {kTokensU16, 2, true},
               {kTokensU16, 3, false},
               {kTokensU32, 4, true},
               {kTokensU32, 6, false},
               {kTokensU32, 0, false},
               {kText, 0, false},
               {kText, 1, true},
               {kImageU8, 8, false},
               {kImageU8, 9, true},
               {kImageF32, 12, true},
               {kImageF32, 13, false},
               {kRaw, 0, true},
               {kRaw, kMaxTotalBytes, true},
               {kRaw, kMaxTotalBytes + 1, false},
               {static_cast<PayloadKind>(9), 4, false}};
  for (const auto& c : cases)
    EXPECT_EQ(payload_size_valid(c.kind, c.total), c.valid)
        << payload_kind_name(c.kind) << " of " << c.total;
}

TEST(Utf8, StrictlyRfc3629) {
  for (const char* good :
       {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xc2\x80", "\xe0\xa0\x80"})
    EXPECT_TRUE(utf8_valid(good)) << good;
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "a\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3\x28", "\xe2\x28\xa1"})
    EXPECT_FALSE(utf8_valid(bad)) << bad;
}

TEST(StatusDetail, IsCutBetweenCharacters) {
  const std::string text = "a\xe2\x82\xac";  // "a€", 4 bytes
  const auto fit = [&](size_t max) {
    const auto cut = detail_payload(text, max);
    EXPECT_EQ(status_detail(cut).size(), cut.size());  // still valid
    return cut.size();
  };
  EXPECT_EQ(fit(0), 0u);
  EXPECT_EQ(fit(1), 1u);
  EXPECT_EQ(fit(2), 1u);
  EXPECT_EQ(fit(3), 1u);
  EXPECT_EQ(fit(4), 4u);
  EXPECT_EQ(fit(400), 4u);
  EXPECT_EQ(detail_payload(std::string(9999, 'x'), 9999).size(), kMaxDetailBytes);
  const Bytes invalid{std::byte{0xff}};
  EXPECT_EQ(status_detail(invalid), "");
}

TEST(Classes, RoundTrip) {
  const ClassEntry entries[] = {{4, 0.75f, "joy"}, {0, 0.25f, ""}, {9, 0.0f, "\xc3\xa9moi"}};
  Bytes payload(encoded_classes_bytes(entries));
  EXPECT_EQ(payload.size(), 12u + 4 + 12 + 0 + 12 + 8);
  ASSERT_EQ(encode_classes(entries, payload), payload.size());
  ClassReader reader(payload);
  ClassEntry entry;
  for (const ClassEntry& expected : entries) {
    ASSERT_TRUE(reader.next(entry));
    EXPECT_EQ(entry.index, expected.index);
    EXPECT_EQ(entry.probability, expected.probability);
    EXPECT_EQ(entry.name, expected.name);
  }
  EXPECT_FALSE(reader.next(entry));
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(encode_classes(entries, std::span(payload).first(payload.size() - 1)), 0u);
}

TEST(Classes, LongNamesAreCutBetweenCharacters) {
  std::string name(kMaxClassNameBytes - 1, 'x');
  name += "\xc3\xa9";
  const ClassEntry entries[] = {{1, 1.0f, name}};
  Bytes payload(encoded_classes_bytes(entries));
  ASSERT_EQ(encode_classes(entries, payload), payload.size());
  ClassReader reader(payload);
  ClassEntry entry;
  ASSERT_TRUE(reader.next(entry));
  EXPECT_EQ(entry.name, std::string(kMaxClassNameBytes - 1, 'x'));
}

TEST(Classes, DamagedListsAreRefused) {
  const ClassEntry entries[] = {{4, 0.75f, "joy"}, {1, 0.25f, "anger"}};
  Bytes payload(encoded_classes_bytes(entries));
  ASSERT_EQ(encode_classes(entries, payload), payload.size());
  const auto count = [](std::span<const std::byte> bytes) {
    ClassReader reader(bytes);
    ClassEntry entry;
    int entries = 0;
    while (reader.next(entry)) ++entries;
    return reader.ok() ? entries : -1;
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count(payload), 2);
  for (size_t bytes = 1; bytes < payload.size(); ++bytes)
    EXPECT_EQ(count(std::span(payload).first(bytes)), bytes == 16 ? 1 : -1) << bytes;
  EXPECT_EQ(count(test::with<uint32_t>(payload, 8, 0xfffffffd)), -1);  // rounding up must not wrap
  EXPECT_EQ(count(test::with<uint32_t>(payload, 8, kMaxClassNameBytes + 1)), -1);
  Bytes long_name(12 + kMaxClassNameBytes + 4, std::byte{'x'});  // complete, but too long
  EXPECT_EQ(count(test::with<uint32_t>(long_name, 8, kMaxClassNameBytes + 4)), -1);
  long_name.resize(12 + kMaxClassNameBytes);
  EXPECT_EQ(count(test::with<uint32_t>(long_name, 8, kMaxClassNameBytes)), 1);
  EXPECT_EQ(count(test::with<uint8_t>(payload, 15, 1)), -1);     // padding is not zero
  EXPECT_EQ(count(test::with<uint8_t>(payload, 12, 0xff)), -1);  // not UTF-8
}

}  // namespace
}  // namespace itif::wire
