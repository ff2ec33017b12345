#include "json/json_file.h"

#include <gtest/gtest.h>

#include "support/temp_directory.h"

namespace itif::json_file {
namespace {

TEST(JsonFile, BadTextIsRefusedWithTheReason) {
  const struct {
    std::string text, expected;
  } rows[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{\"a\": 1,}", "not JSON"},
      {"{\"a\": \"\xff\"}", "not JSON"},
      {"{\"a\": 1} x", "not JSON"},
      {std::string("{}\0{}", 5), "NUL"},
      {"[1]", "expected a JSON object, found array"},
      {"3", "expected a JSON object, found number"},
      {"{\"a\": 1, \"b\": 2, \"a\": 3}", "'\"a\"' occurs twice"},
      {"{\"x\": {\"b\": 2, \"b\": 2}}", "'\"x.b\"' occurs twice"},
      {std::string(33, '['), "deeper than 32"},
      {std::string(1'000'000, '['), "deeper than 32"},
  };
  for (const auto& row : rows) {
    const auto result = parse_json_object(row.text, "f.json");
    ASSERT_FALSE(result) << row.text.substr(0, 40);
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_NE(result.error().message.find("f.json: "), std::string::npos);
    EXPECT_NE(result.error().message.find(row.expected), std::string::npos)
        << result.error().message;
  }
}

TEST(JsonFile, BracketsInStringsDoNotCountAsDepth) {
  const std::string text =
      "{\"a\": \"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"}";
  EXPECT_TRUE(parse_json_object(text, "f.json"));
}

TEST(JsonFile, SameKeyInDifferentObjectsIsFine) {
  EXPECT_TRUE(parse_json_object(
      "{\"a\": {\"k\": 1}, \"b\": {\"k\": 2}, \"c\": [{\"k\": 1}, {\"k\": 1}]}", "f"));
}

TEST(JsonFile, MembersOfTheWrongTypeOrRangeAreNamed) {
  const auto object =
      parse_json_object(
          "{\"u\": 7, \"neg\": -1, \"big\": 4294967296, \"f\": 1.5, \"s\": \"x\", \"b\": true, "
          "\"null\": null}",
          "f.json")
          .value();
  EXPECT_EQ(get_uint(object, "u", 1, 7, "f").value(), 7u);
  EXPECT_EQ(get_uint_or(object, "null", 1, 7, 3, "f").value(), 3u);
  EXPECT_EQ(get_string_or(object, "s", "", "f").value(), "x");
  EXPECT_TRUE(get_bool_or(object, "b", false, "f").value());
  EXPECT_DOUBLE_EQ(get_number_or(object, "f", 0, 2, 0, "f").value(), 1.5);
  const auto message = [](const auto& result) {
    EXPECT_FALSE(result);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(message(get_uint(object, "u", 8, 9, "f")),
            "f: 'u' must be an integer from 8 to 9, found 7");
  EXPECT_EQ(message(get_uint(object, "gone", 8, 9, "f")),
            "f: 'gone' must be an integer from 8 to 9, found nothing");
  for (const char* key : {"neg", "big", "f", "s", "b", "null"})
    EXPECT_NE(message(get_uint(object, key, 0, UINT32_MAX, "f")).find(key), std::string::npos);
  EXPECT_NE(message(get_bool_or(object, "u", false, "f")).find("true or false, found 7"),
            std::string::npos);
  EXPECT_NE(message(get_string_or(object, "u", "", "f")).find("a string, found 7"),
            std::string::npos);
  EXPECT_NE(message(get_number_or(object, "s", 0, 1, 0, "f")).find("found \"x\""),
            std::string::npos);
}

TEST(JsonFile, FilesAreBoundedAndRegular) {
  testing::TempDirectory directory;
  directory.write("f.json", "{\"a\": 1}");
  EXPECT_EQ(read_json_file(directory.file("f.json")).value()["a"], 1);
  EXPECT_EQ(read_text_file(directory.file("f.json"), 3).error().code, Code::kCorrupt);
  EXPECT_EQ(read_json_file(directory.file("none")).error().code, Code::kNotFound);
  EXPECT_EQ(read_json_file(directory.path()).error().code, Code::kCorrupt);
  EXPECT_EQ(read_json_file("/dev/zero").error().code, Code::kCorrupt);
}

TEST(JsonFile, ShownIsShortAscii) {
  EXPECT_EQ(shown("a\x01\xc3\xa9"), "\"a\\u0001\\u00e9\"");
  EXPECT_EQ(shown(std::string(1000, 'x')).size(), 60u);
}

}  // namespace
}  // namespace itif::json_file
