// Checks docs/protocol.md against the code: its tables name the code's values, and every example
// parses, has the tag it says and the field values that its comments name.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "builder.h"
#include "config/config.h"
#include "wire/classes.h"
#include "wire/geometry.h"
#include "wire/siphash.h"

namespace itif::wire {
namespace {

using test::Bytes;
using Row = std::vector<std::string>;

std::vector<std::string> document_lines() {
  std::ifstream file(ITIF_SOURCE_DIR "/docs/protocol.md");
  EXPECT_TRUE(file.is_open()) << ITIF_SOURCE_DIR "/docs/protocol.md";
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" `");
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(" `") - first + 1);
}

// Returns the body of the n-th table (from 0) under a heading.
std::vector<Row> table(const std::string& heading, int n = 0) {
  const auto lines = document_lines();
  size_t i = 0;
  while (i < lines.size() && lines[i] != heading) ++i;
  EXPECT_LT(i, lines.size()) << heading;
  std::vector<Row> rows;
  for (++i; i < lines.size() && !lines[i].starts_with("## "); ++i) {
    if (!lines[i].starts_with("|")) continue;
    size_t end = i;
    while (end < lines.size() && lines[end].starts_with("|")) ++end;
    if (n-- > 0) {
      i = end;
      continue;
    }
    for (size_t j = i + 2; j < end; ++j) {  // after the head and its rule
      std::istringstream cells(lines[j].substr(1));
      Row row;
      for (std::string cell; std::getline(cells, cell, '|');) row.push_back(trimmed(cell));
      rows.push_back(row);
    }
    return rows;
  }
  ADD_FAILURE() << "no table under " << heading;
  return rows;
}

struct Field {
  size_t offset;
  size_t bytes;
  uint64_t (*get)(const Header&);
};
#define FIELD(name)                                                                       \
  std::pair<const std::string, Field>(#name,                                              \
                                      Field{offsetof(Header, name), sizeof(Header::name), \
                                            [](const Header& h) { return uint64_t(h.name); }})
const std::map<std::string, Field>& fields() {
  static const std::map<std::string, Field> all{
      FIELD(magic),        FIELD(version),        FIELD(type),      FIELD(header_bytes),
      FIELD(auth),         FIELD(tenant_id),      FIELD(session),   FIELD(request_id),
      FIELD(total_bytes),  FIELD(offset),         FIELD(budget_us), FIELD(payload_bytes),
      FIELD(payload_kind), FIELD(result_kind),    FIELD(flags),     FIELD(key_epoch),
      FIELD(status),       FIELD(fragment_bytes), FIELD(aux),       FIELD(sequence),
      FIELD(token)};
  return all;
}

TEST(Document, HeaderTableMatchesTheStruct) {
  size_t end = 0;
  const auto rows = table("### Header");
  EXPECT_EQ(rows.size(), fields().size());
  for (const Row& row : rows) {
    ASSERT_TRUE(fields().contains(row.at(2))) << row[2];
    const Field& field = fields().at(row[2]);
    EXPECT_EQ(std::stoul(row[0]), field.offset) << row[2];
    EXPECT_EQ(std::stoul(row[1]), field.bytes) << row[2];
    EXPECT_EQ(field.offset, end) << row[2];
    end += field.bytes;
  }
  EXPECT_EQ(end, kHeaderBytes);
}

// Checks a table whose rows begin with a value and its name, complete and ascending from `first`.
template <class Enum>
void expect_names(const std::vector<Row>& rows, const char* (*name)(Enum), unsigned first) {
  unsigned value = first;
  for (const Row& row : rows) {
    EXPECT_EQ(row.at(0), std::to_string(value)) << row.at(1);
    EXPECT_EQ(row.at(1), name(static_cast<Enum>(value)));
    ++value;
  }
  EXPECT_STREQ(name(static_cast<Enum>(value)), "?")
      << "a value of the code is missing in the document";
}

TEST(Document, TablesNameEveryValue) {
  expect_names(table("### Types"), type_name, 1);
  expect_names(table("### Payload kinds"), payload_kind_name, 0);
  expect_names(table("## 5. Responses"), result_kind_name, 0);
  expect_names(table("## 6. Status codes"), status_name, 0);
  expect_names(table("## 7. Authentication"), auth_name, 0);
}

TEST(Document, FlagsTableMatchesTheCode) {
  const std::map<std::string, Flag> flags{
      {"no_cache", kFlagNoCache},  {"segments", kFlagSegments},
      {"retry", kFlagRetry},       {"of_response", kFlagOfResponse},
      {"truncate", kFlagTruncate}, {"model_version", kFlagModelVersion}};
  const auto rows = table("### Flags");
  EXPECT_EQ(rows.size(), flags.size());
  for (const Row& row : rows) EXPECT_EQ(1u << std::stoul(row.at(0)), flags.at(row.at(1)));
}

TEST(Document, LimitsMatchTheCode) {
  const config::DataPlane defaults;
  const std::vector<uint64_t> limits{kDefaultPort,      kHeaderBytes,      kTagBytes,
                                     kMinFragmentBytes, kMaxFragmentBytes, kDefaultFragmentBytes,
                                     kMaxTotalBytes,    kMaxDetailBytes,   kMaxRanges,
                                     kMaxClassNameBytes};
  const auto rows = table("## 11. Limits and timers");
  ASSERT_EQ(rows.size(), limits.size());
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(std::stoull(rows[i].at(1)), limits[i]) << rows[i][0];

  const std::map<std::string, uint64_t> configured{
      {"reassembly_timeout", defaults.reassembly_timeout_ns / 1'000'000},
      {"cache_ttl", defaults.cache_ttl_ns / 1'000'000},
      {"max_contexts", defaults.max_contexts},
      {"tenant_max_contexts", defaults.tenant_max_contexts},
      {"max_held_bytes", defaults.max_held_bytes},
      {"tenant_max_held_bytes", defaults.tenant_max_held_bytes},
      {"cache_bytes", defaults.cache_bytes},
      {"max_sessions", defaults.max_sessions},
      {"max_unproven_replies", defaults.max_unproven_replies}};
  std::set<std::string> seen;
  for (const Row& row : table("## 11. Limits and timers", 1)) {
    if (row.at(2) == "–") continue;
    ASSERT_TRUE(configured.contains(row[2])) << row[2];
    EXPECT_EQ(std::stoull(row[1]), configured.at(row[2])) << row[2];
    seen.insert(row[2]);
  }
  EXPECT_EQ(seen.size(), configured.size());
}

struct Example {
  std::string name;
  Bytes bytes;
  std::string comments;
};

// Returns every fenced block with the info string "hex NAME".
std::vector<Example> examples() {
  std::vector<Example> out;
  bool inside = false;
  for (const std::string& line : document_lines()) {
    if (line.starts_with("```")) {
      inside = line.starts_with("```hex ");
      if (inside) out.push_back({line.substr(7), {}, {}});
    } else if (inside) {
      const size_t comment = line.find('#');
      std::istringstream text(line.substr(0, comment));
      for (std::string byte; text >> byte;)
        out.back().bytes.push_back(static_cast<std::byte>(std::stoul(byte, nullptr, 16)));
      if (comment != std::string::npos) out.back().comments += line.substr(comment) + "\n";
    }
  }
  return out;
}

TEST(Document, EveryExampleIsValid) {
  Key key{};
  std::set<Type> types;
  std::set<Auth> auths;
  size_t datagrams = 0;
  for (Example& example : examples()) {
    if (example.name == "key") {
      ASSERT_EQ(example.bytes.size(), key.size());
      std::copy(example.bytes.begin(), example.bytes.end(), key.begin());
      continue;
    }
    SCOPED_TRACE(example.name);
    Datagram parsed;
    const ParseError error = parse(example.bytes, parsed);
    ASSERT_EQ(error, ParseError::kNone) << parse_error_name(error);
    if (parsed.header.auth != Auth::kNone) {
      EXPECT_TRUE(open(key, parsed));
    }
    EXPECT_EQ(parsed.header.sequence != 0,
              parsed.header.auth != Auth::kNone || parsed.header.type == Type::kStatus);
    size_t named = 0;
    const std::regex pattern("(\\w+)=(0x[0-9a-f]+|[0-9]+)");
    const std::string& text = example.comments;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
         ++match) {
      ASSERT_TRUE(fields().contains((*match)[1])) << (*match)[1];
      EXPECT_EQ(fields().at((*match)[1]).get(parsed.header), std::stoull((*match)[2], nullptr, 0))
          << (*match)[1];
      ++named;
    }
    EXPECT_EQ(named, fields().size());
    if (parsed.header.type == Type::kResend) {
      std::array<Range, kMaxRanges> ranges;
      EXPECT_GT(parse_ranges(parsed.payload, parsed.header.total_bytes, ranges), 0u);
    }
    types.insert(parsed.header.type);
    auths.insert(parsed.header.auth);
    ++datagrams;
  }
  EXPECT_GT(datagrams, 10u);
  EXPECT_EQ(types.size(), 10u);  // one example of each
  EXPECT_EQ(auths.size(), 4u);
}

// The sealed request is the unsealed one's payload, its answer likewise.
TEST(Document, SealedExamplesContainThePayloadsOfTheOthers) {
  std::map<std::string, Bytes> blocks;
  for (const Example& example : examples()) blocks[example.name] = example.bytes;
  Key key{};
  std::ranges::copy(blocks["key"], key.begin());
  for (const std::string name : {"request", "response"}) {
    Datagram sealed, full;
    ASSERT_EQ(parse(blocks[name + "_sealed"], sealed), ParseError::kNone);
    ASSERT_EQ(parse(blocks[name], full), ParseError::kNone);
    EXPECT_FALSE(std::ranges::equal(sealed.payload, full.payload)) << name;
    ASSERT_TRUE(open(key, sealed)) << name;
    EXPECT_TRUE(std::ranges::equal(sealed.payload, full.payload)) << name;
  }
}

TEST(Document, TestVectorsOfTheTag) {
  std::string text;
  for (const std::string& line : document_lines()) text += line + "\n";
  const auto hex = [](const std::array<std::byte, 16>& hash) {
    std::string out;
    for (std::byte byte : hash) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
      out += digits;
    }
    return out;
  };
  const std::byte zero{};
  EXPECT_NE(text.find(hex(siphash128(test::test_key(), {}, {}))), std::string::npos);
  EXPECT_NE(text.find(hex(siphash128(test::test_key(), {}, std::span(&zero, 1)))),
            std::string::npos);
  for (const std::byte half : {std::byte{1}, std::byte{2}}) {  // the key of encryption
    EXPECT_NE(text.find(hex(siphash128(test::test_key(), {}, std::span(&half, 1)))),
              std::string::npos);
  }
}

TEST(Document, FragmentSizesForCommonMtus) {
  EXPECT_EQ(fragment_bytes_for_mtu(1500), 1368u);
  EXPECT_EQ(fragment_bytes_for_mtu(9000), 8868u);
  EXPECT_EQ(fragment_bytes_for_mtu(1280), kMinResponseFragmentBytes);
  EXPECT_EQ(response_fragment_bytes(1368, 64), 1148u);
  EXPECT_EQ(response_fragment_bytes(1368, 1200), 1200u);
  EXPECT_EQ(response_fragment_bytes(1368, 8868), 1368u);
  EXPECT_EQ(response_fragment_bytes(600, 64), 600u);
  EXPECT_EQ(max_resend_ranges(64), 8u);
  EXPECT_EQ(max_resend_ranges(1368), kMaxRanges);
}

}  // namespace
}  // namespace itif::wire
