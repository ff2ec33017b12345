#include "model/safetensors.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/safetensors_text.h"

namespace itif::model {
namespace {

using testing::entry;
using testing::safetensors;

Result<std::vector<TensorEntry>> parse(const std::string& file) {
  if (file.size() < 8) return fail(Code::kCorrupt, "m.safetensors: short");
  const auto bytes = std::as_bytes(std::span(file));
  ITIF_ASSIGN(const uint64_t header,
              parse_safetensors_prefix(bytes.first<8>(), file.size(), "m.safetensors"));
  return parse_safetensors_header(bytes.subspan(8, header), file.size(), "m.safetensors");
}

TEST(Safetensors, EntriesAreInFileOrderWithOffsets) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "F16", "[2,3]", 4, 16) + "," +
      entry("a", "F32", "[1]", 0, 4) + "," + entry("empty", "F32", "[0,5]", 16, 16) + "," +
      entry("scalar", "I64", "[]", 16, 24) + "}   ";
  const auto entries = parse(safetensors(header, std::string(24, 'x'))).value();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].begin, 8 + header.size());
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].dtype, DType::kF16);
  EXPECT_EQ(entries[1].dims, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(entries[1].end - entries[1].begin, 12u);
  EXPECT_EQ(entries[2].name, "empty");
  EXPECT_EQ(entries[3].dims.size(), 0u);
}

TEST(Safetensors, UnsupportedTypesAreReadButMarked) {
  const auto entries =
      parse(safetensors("{" + entry("t", "F8_E4M3", "[3]", 0, 3) + "}", "abc")).value();
  EXPECT_FALSE(entries[0].dtype);
  EXPECT_EQ(entries[0].dtype_text, "F8_E4M3");
}

// Header, data, claimed header length (-1: the true one), part of the message.
struct Hostile {
  std::string header, data;
  int64_t claimed;
  std::string expected;
};

TEST(Safetensors, HostileHeadersAreRefusedByName) {
  const std::string a4 = entry("a", "F32", "[1]", 0, 4);
  const Hostile rows[] = {
      // Wrong header lengths and headers that are not JSON objects.
      {"{}", "", 1000, "truncated"},
      {"{}", "", INT64_MAX, "at most"},
      {"{}", "", static_cast<int64_t>(kMaxSafetensorsHeaderBytes) + 1, "at most"},
      {"{" + a4 + "}", "1234", 5, "not JSON"},
      {"{" + a4 + "}", "1234", 0, "starts with '{'"},
      {"", "", -1, "starts with '{'"},
      {" {}", "", -1, "starts with '{'"},
      {"[]", "", -1, "starts with '{'"},
      {"{", "", -1, "not JSON"},
      {"{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "", -1, "deeper"},
      {"{" + a4 + "," + a4 + "}", "1234", -1, "twice"},
      // Wrong entries.
      {"{\"a\":3}", "", -1, "tensor \"a\": expected an object, found 3"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "1234", -1,
       "tensor \"a\": expected 'dtype'"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "1234", -1, "expected 'shape'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "1234", -1, "expected 'data_offsets'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"z\":1}}", "1234", -1,
       "unknown key \"z\""},
      {"{" + entry("a", "F31", "[1]", 0, 4) + "}", "1234", -1, "found \"F31\""},
      {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", "1234", -1, "found 7"},
      {"{" + entry("a", "F32", "[-1]", 0, 4) + "}", "1234", -1,
       "non-negative integers, found [-1]"},
      {"{" + entry("a", "F32", "[1.0]", 0, 4) + "}", "1234", -1, "non-negative integers"},
      {"{" + entry("a", "F32", "7", 0, 4) + "}", "1234", -1, "at most 8 dimensions, found 7"},
      {"{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) + "}", "1234", -1, "at most 8"},
      {"{" + entry("a", "F32", "[4294967296,4294967296]", 0, 4) + "}", "1234", -1, "overflows"},
      {"{" + entry("a", "I64", "[2305843009213693952]", 0, 0) + "}", "", -1, "overflows"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "1234", -1,
       "[begin, end]"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "1234", -1,
       "[begin, end]"},
      {"{" + entry("a", "F32", "[1]", 4, 0) + "}", "1234", -1, "end before they begin"},
      {"{" + entry("a", "F32", "[2]", 0, 4) + "}", "1234", -1,
       "expected 8 bytes for F32 [2], found 4"},
      // Offsets that contradict each other or the file.
      {"{" + a4 + "," + entry("b", "F32", "[1]", 2, 6) + "}", "123456", -1,
       "\"b\": expected data from byte 4"},
      {"{" + a4 + "," + entry("b", "F32", "[1]", 0, 4) + "}", "1234", -1, "overlaps"},
      {"{" + a4 + "," + entry("b", "F32", "[1]", 8, 12) + "}", "123456789012", -1, "a gap"},
      {"{" + entry("a", "F32", "[1]", 4, 8) + "}", "12345678", -1, "a gap"},
      {"{" + a4 + "}", "123", -1, "truncated"},
      {"{" + a4 + "}", "12345", -1, "expected 4 bytes of data, found 5"},
      {"{" + entry("a", "F32", "[1]", 18446744073709551612u, 18446744073709551615u) + "}", "1234",
       -1, "expected 4 bytes"},
  };
  for (const Hostile& row : rows) {
    const auto result = parse(safetensors(row.header, row.data, row.claimed));
    ASSERT_FALSE(result) << row.header;
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_NE(result.error().message.find("m.safetensors"), std::string::npos);
    EXPECT_NE(result.error().message.find(row.expected), std::string::npos)
        << row.header << "\n"
        << result.error().message;
  }
}

TEST(Safetensors, MutatedHeadersNeverGiveAnEntryOutsideTheFile) {
  const std::string good = safetensors(
      "{" + entry("aa", "F32", "[2,2]", 0, 16) + "," + entry("bb", "BF16", "[3]", 16, 22) + "}",
      std::string(22, 'x'));
  ASSERT_TRUE(parse(good));
  Random random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    for (uint64_t i = random.below(4) + 1; i; --i) {
      const size_t at = random.below(bad.size());
      switch (random.below(4)) {
        case 0: bad[at] = static_cast<char>(random.next()); break;
        case 1: bad.resize(at + 1); break;
        case 2: bad.insert(at, 1, "0123456789[]{}\",:"[random.below(17)]); break;
        case 3: bad.erase(at, 1); break;
      }
      if (bad.empty()) bad = "x";
    }
    const auto entries = parse(bad);
    if (!entries) continue;
    for (const TensorEntry& tensor : *entries) ASSERT_LE(tensor.end, bad.size());
  }
}

}  // namespace
}  // namespace itif::model
