#include "plan/cost_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/tables.h"

namespace itif::plan {
namespace {

CostTables tables_of(uint64_t seed) {
  Random random(seed);
  CostTables tables = full_tables(
      {3, 16, 64}, 3, [&](uint32_t, uint32_t) { return 1e6 * random.uniform() + 1e-9; },
      [&](uint32_t, uint32_t, uint32_t) { return 1e12 * random.uniform() + 1e-9; });
  for (int l = 0; l < 3; ++l) tables.other_row_ns.push_back(1e3 * random.uniform() + 1e-9);
  tables.range_counts = {2, 5};
  tables.range_rows = {8, 16, 33};
  for (const uint32_t n : {768u, 2304u}) {
    SharedGemm gemm{.n = n, .k = 768, .sequential_ns = {}, .concurrent_ns = {}, .times = 12};
    for (int cell = 0; cell < 6; ++cell) {
      gemm.sequential_ns.push_back(1e6 * random.uniform() + 1e-9);
      gemm.concurrent_ns.push_back(1e6 * random.uniform() + 1e-9);
    }
    // The tables of a GPU: all of the first shape, some of the second.
    for (const SharedGemmTable& table : kSharedGemmTables)
      if (table.is_optional && (n == 768 || random.below(2) == 0))
        for (int cell = 0; cell < 6; ++cell)
          (gemm.*table.costs_ns).push_back(1e6 * random.uniform() + 1e-9);
    tables.shared_gemms.push_back(gemm);
  }
  tables.launch_ns = seed % 2 == 0 ? 1e6 * random.uniform() : 0;
  tables.device = "NVIDIA H200, 132 SMs; bf16 \xc3\xa9";
  tables.backbone = "bert 12x768, 12 heads";
  return tables;
}

uint64_t fnv1a(const std::string& bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

// body() removes the last line, which holds the checksum. sealed() appends a valid one.
std::string body(const std::string& text) {
  return text.substr(0, text.rfind("end "));
}
std::string sealed(const std::string& body) {
  return fmt::format("{}end {:016x}\n", body, fnv1a(body));
}

TEST(CostFile, ReadsBackTheSameNumbers) {
  for (uint64_t seed = 1; seed < 50; ++seed) {
    const CostTables tables = tables_of(seed);
    const auto read = parse_cost_tables(format_cost_tables(tables));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, tables);
  }
  CostTables without = tables_of(1);
  without.counts.clear();
  without.sizes.clear();
  without.batched_gemm_ns.clear();
  without.other_row_ns.clear();
  without.range_counts.clear();
  without.range_rows.clear();
  without.shared_gemms.clear();
  const auto read = parse_cost_tables(format_cost_tables(without));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, without);

  CostTables of_decoder = tables_of(1);
  for (auto* axis :
       {&of_decoder.lengths, &of_decoder.batches, &of_decoder.counts, &of_decoder.sizes})
    axis->clear();
  of_decoder.gemm_ns.clear();
  of_decoder.batched_gemm_ns.clear();
  of_decoder.other_row_ns.clear();
  const auto steps = parse_cost_tables(format_cost_tables(of_decoder));
  ASSERT_TRUE(steps) << steps.error().message;
  EXPECT_EQ(*steps, of_decoder);
}

TEST(CostFile, WritesTheDocumentedText) {
  CostTables tables = full_tables(
      {16, 64}, 2, [](uint32_t l, uint32_t b) { return l * b + 0.5; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 1000.0 * l * c * s; });
  tables.other_row_ns = {2.5, 3};
  tables.range_counts = {2, 4};
  tables.range_rows = {8, 16};
  tables.shared_gemms = {{.n = 2304,
                          .k = 768,
                          .sequential_ns = {1, 2, 3, 4},
                          .concurrent_ns = {5, 6, 7, 8.5},
                          .times = 3,
                          .pointers_ns = {9, 10, 11, 12}}};
  tables.launch_ns = 31.5;
  const std::string expected =
      "itif-cost-tables 6\ndevice a device\nbackbone a backbone\nlengths 2 16 64\nbatches 2 1 2\n"
      "counts 1 2\nsizes 2 1 2\ngemm_ns\n16.5 32.5\n64.5 128.5\nbatched_gemm_ns\n32000 64000\n"
      "128000 256000\nother_row_ns\n2.5 3\nlaunch_ns\n31.5\nrange_counts 2 2 4\nrange_rows 2 8 "
      "16\nshapes 3 2304 "
      "768 3\nin_turn_ns\n1 2\n3 "
      "4\n"
      "at_once_ns\n5 6\n7 8.5\npointers_ns\n9 10\n11 12\n";
  EXPECT_EQ(format_cost_tables(tables), sealed(expected));
}

TEST(CostFile, EveryTruncationIsRefused) {
  const std::string text = format_cost_tables(tables_of(1));
  for (size_t length = 0; length < text.size(); ++length)
    ASSERT_FALSE(parse_cost_tables(text.substr(0, length))) << length;
}

TEST(CostFile, EveryChangedByteIsRefused) {
  const std::string text = format_cost_tables(tables_of(1));
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {1, 8, 32, -128}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      ASSERT_FALSE(parse_cost_tables(changed)) << i;
    }
  }
  ASSERT_FALSE(parse_cost_tables(text + "\n"));
  ASSERT_FALSE(parse_cost_tables(text + text));
}

// A valid checksum proves nothing: anyone who can write the file can compute it.
TEST(CostFile, HostileContentsAreRefusedWithTheLine) {
  const std::string good = body(format_cost_tables(tables_of(1)));
  struct Case {
    const char* from;
    const char* to;
    const char* message;
  };
  const Case cases[] = {
      {"lengths 3 3 16 64", "lengths 4000000000 3 16 64", "line 4: has more than 64 values"},
      {"lengths 3 3 16 64", "lengths 99999999999 3", "line 4: a number is missing"},
      {"lengths 3 3 16 64", "lengths 4 3 16 64", "line 4: has fewer values"},
      {"lengths 3 3 16 64", "lengths 2 3 16 64", "line 4: has values beyond"},
      {"lengths 3 3 16 64", "lengths 3 3 16 -64", "line 4: a number is missing"},
      {"lengths 3 3 16 64", "lengths 3 3  16 64", "line 4: a number is missing"},
      {"lengths 3 3 16 64", "lengths 3 3 16 64.5", "line 4: has values beyond"},
      {"lengths 3 3 16 64", "lengths 3 16 3 64", "lengths must ascend"},
      {"lengths 3 3 16 64", "lengths 0", "line 9: should begin with 'batched_gemm_ns'"},
      {"lengths 3 3 16 64", "widths 3 3 16 64", "line 4: should begin with 'lengths '"},
      {"counts 2 2 3", "counts 0", "line 13: should begin with 'other_row_ns'"},
      {"counts 2 2 3", "counts 2 1 3", "counts must ascend"},
      {"device NVIDIA", "devices NVIDIA", "line 2: should begin with 'device '"},
      {"device NVIDIA", "device \x01", "device must be one line"},
      {"gemm_ns\n", "gemm_ns 1\n", "line 8: should be 'gemm_ns'"},
      {"gemm_ns\n", "gemm_ns\nnan ", "line 9: should hold 3 costs"},
      {"gemm_ns\n", "gemm_ns\n\n", "line 9: a number is missing"},
      {"batched_gemm_ns\n", "batched_gemm_ns\n1 2 3\n",
       "line 19: should begin with 'other_row_ns'"},
      {"other_row_ns\n", "other_row_ns\n1 2 3\n", "line 21: should begin with 'launch_ns'"},
      {"launch_ns\n0\n", "launch_ns\n-1\n", "launch_ns must be 0 to"},
      {"launch_ns\n0\n", "launch_ns\n0 1\n", "line 22: should hold 1 costs"},
      {"streams_ns\n", "streams\n", "should begin with"},
      {"other_row_ns\n", "other_row_ns\n-", "other_row_ns must be above 0"},
      {"shapes 6 768", "shapes 7 1 768", "line 25: needs n, k and times of each shape"},
      {"shapes 6 768", "shapes 64 768", "line 25: has more than 48 values"},
      {"shapes 6 768", "shapes 6 0", "shape 1 of shared_gemms is 0 x 768"},
      {"768 768 12", "768 768 0", "shape 1 of shared_gemms is 768 x 768, 0 times"},
      {"shapes 6 768 768 12 2304", "shapes 6 768 768 12 768", "has shape 768 x 768 twice"},
      {"shapes 6 768 768 12 2304 768 12", "shapes 3 768 768 12",
       "line 47: the tables should end before"},
      {"range_rows 3 8 16 33", "range_rows 2 8 16", "line 27: should hold 2 costs"},
      {"range_counts 2 2 5", "range_counts 2 0 5", "range_counts must ascend"},
  };
  for (const Case& c : cases) {
    std::string changed = good;
    const size_t at = changed.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    changed.replace(at, std::string_view(c.from).size(), c.to);
    const auto read = parse_cost_tables(sealed(changed));
    ASSERT_FALSE(read) << c.to;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    EXPECT_NE(read.error().message.find(c.message), std::string::npos)
        << c.to << ": " << read.error().message;
  }
  for (const char* cost : {"0", "-5", "nan", "inf", "1e300", "1e999", "0x10", "five", ""}) {
    std::string changed = good;
    const size_t at = changed.find("gemm_ns\n") + 8;
    changed.replace(at, changed.find(' ', at) - at, cost);
    EXPECT_FALSE(parse_cost_tables(sealed(changed))) << cost;
  }
}

TEST(CostFile, RefusesOtherFormatsAndVersions) {
  EXPECT_EQ(parse_cost_tables("").error().code, Code::kCorrupt);
  EXPECT_EQ(parse_cost_tables("{\"a\": 1}\n").error().code, Code::kCorrupt);
  const auto newer = parse_cost_tables(sealed("itif-cost-tables 7\nanything\n"));
  EXPECT_EQ(newer.error().code, Code::kUnsupported);
  EXPECT_NE(newer.error().message.find("version 7"), std::string::npos);
  // Version 2 has no tables for decoders: the costs must be measured again.
  const auto older = parse_cost_tables(sealed("itif-cost-tables 2\nanything\n"));
  EXPECT_EQ(older.error().code, Code::kUnsupported);
}

TEST(CostFile, RandomDamageWithAValidChecksumNeverGivesInvalidTables) {
  const std::string good = body(format_cost_tables(tables_of(1)));
  Random random(8);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = good;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      const size_t at = random.below(changed.size());
      switch (random.below(3)) {
        case 0: changed[at] = static_cast<char>(random.below(256)); break;
        case 1: changed.erase(at, 1 + random.below(8)); break;
        case 2: changed.insert(at, changed.substr(random.below(changed.size()), 5)); break;
      }
    }
    // An accepted file is valid. It may differ from the original.
    const auto read = parse_cost_tables(sealed(changed));
    ASSERT_TRUE(!read || validate(*read));
  }
}

class CostFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/itif-costs-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/" + cost_file_name("device", "backbone"); }
  std::string folder_;
};

TEST_F(CostFileOnDisk, WritesAndReadsAndReplaces) {
  EXPECT_EQ(read_cost_tables(path()).error().code, Code::kNotFound);
  ASSERT_TRUE(write_cost_tables(tables_of(1), path()));
  ASSERT_TRUE(write_cost_tables(tables_of(2), path()));
  const auto read = read_cost_tables(path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, tables_of(2));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(CostFileOnDisk, RefusesWithThePath) {
  std::ofstream(path()) << "itif-cost-tables 6\n";
  const auto read = read_cost_tables(path());
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_NE(read.error().message.find(path()), std::string::npos);

  std::ofstream(path()) << std::string(32 << 20, 'x');
  const auto large = read_cost_tables(path());
  EXPECT_EQ(large.error().code, Code::kCorrupt);
  EXPECT_NE(large.error().message.find("larger than"), std::string::npos);
  EXPECT_FALSE(read_cost_tables(folder_));

  CostTables broken = tables_of(1);
  broken.gemm_ns.pop_back();
  EXPECT_EQ(write_cost_tables(broken, path()).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(write_cost_tables(tables_of(1), folder_ + "/none/costs.txt"));
}

TEST(CostFile, NamesDifferByDeviceAndBackbone) {
  EXPECT_EQ(cost_file_name("a", "b"), cost_file_name("a", "b"));
  EXPECT_NE(cost_file_name("a", "b"), cost_file_name("b", "a"));
  EXPECT_NE(cost_file_name("a", "b"), cost_file_name("a", "c"));
  EXPECT_EQ(cost_file_name("/../", "x y").find_first_of("/ "), std::string::npos);
}

}  // namespace
}  // namespace itif::plan
