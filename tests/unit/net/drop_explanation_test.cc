// Every reason to drop a datagram has words, and docs/operations.md has the same ones.
#include "net/drop_explanation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace itif::net {
namespace {

// The rows of the table under a heading, without its head.
std::vector<std::string> documented_rows(std::string_view heading) {
  std::ifstream file(ITIF_SOURCE_ROOT "/docs/operations.md");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) inside = line == heading;
    if (inside && line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

TEST(DropExplanations, AreSentences) {
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    const DropExplanation& words = explain_drop(reason);
    for (const std::string_view text : {words.means, words.remedy}) {
      ASSERT_GT(text.size(), 10u) << drop_reason_name(reason);
      EXPECT_TRUE(text.front() >= 'A' && text.front() <= 'Z') << text;
      EXPECT_EQ(text.back(), '.') << text;
    }
  }
}

TEST(DropExplanations, DifferBetweenReasons) {
  std::set<std::string_view> meanings;
  for (size_t i = 1; i < kNumDropReasons; ++i)
    EXPECT_TRUE(meanings.insert(explain_drop(static_cast<DropReason>(i)).means).second)
        << explain_drop(static_cast<DropReason>(i)).means;
}

TEST(DropExplanations, AreFoundByName) {
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_EQ(find_drop_reason(drop_reason_name(reason)), reason);
  }
  for (const char* name : {"none", "", "?", "of_a_later_version"})
    EXPECT_FALSE(find_drop_reason(name)) << name;
}

std::vector<std::string> rows_of(DropClass wanted) {
  std::vector<std::string> rows;
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    const DropExplanation& words = explain_drop(reason);
    if (drop_class(reason) == wanted)
      rows.push_back(
          fmt::format("| `{}` | {} | {} |", drop_reason_name(reason), words.means, words.remedy));
  }
  return rows;
}

TEST(DropExplanations, AreThoseOfTheDocument) {
  EXPECT_EQ(documented_rows("### Drop reasons"), rows_of(DropClass::kDropped));
  EXPECT_EQ(documented_rows("### Repeats"), rows_of(DropClass::kRepeated));
}

TEST(DropClasses, OnlyPiecesAndAnswersThatWeStillHaveAreRepeats) {
  std::set<std::string_view> repeats;
  for (size_t i = 0; i < kNumDropReasons; ++i)
    if (const auto reason = static_cast<DropReason>(i); drop_class(reason) == DropClass::kRepeated)
      repeats.insert(drop_reason_name(reason));
  EXPECT_EQ(repeats, (std::set<std::string_view>{"duplicate", "late", "answered_from_cache",
                                                 "already_sending"}));
}

TEST(DropClasses, EachReasonCountsInOneSum) {
  DropCounts counts;
  counts.fill(1);
  EXPECT_EQ(sum_of(counts, DropClass::kRepeated), 4u);
  EXPECT_EQ(sum_of(counts, DropClass::kDropped), kNumDropReasons - 4);
  counts.fill(0);
  counts[static_cast<size_t>(DropReason::kLate)] = 60;
  counts[static_cast<size_t>(DropReason::kReplayed)] = 7;
  EXPECT_EQ(sum_of(counts, DropClass::kRepeated), 60u);
  EXPECT_EQ(sum_of(counts, DropClass::kDropped), 7u);
}

// Datagrams that a parser refuses are counted under the reason that says so.
TEST(DropExplanations, ParseErrorsHaveTheWordsOfTheirReason) {
  for (size_t i = 1; i < wire::kNumParseErrors; ++i) {
    const auto error = static_cast<wire::ParseError>(i);
    EXPECT_EQ(fmt::format("wire_{}", wire::parse_error_name(error)),
              drop_reason_name(drop_reason(error)));
  }
}

}  // namespace
}  // namespace itif::net
