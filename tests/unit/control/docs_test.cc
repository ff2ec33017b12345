// Checks docs/control.md against a real server: its requests, sent in the order of the document,
// pass the server's checks, and the answers have the fields it shows.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "control/message.h"
#include "control/operation.h"
#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

std::string document() {
  std::ifstream file(ITIF_SOURCE_ROOT "/docs/control.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the contents of the ```json blocks.
std::vector<std::string> examples() {
  std::vector<std::string> found;
  std::istringstream lines(document());
  std::string line, block;
  bool inside = false;
  while (std::getline(lines, line)) {
    if (line == "```json") {
      inside = true;
      block.clear();
    } else if (line == "```" && inside) {
      inside = false;
      found.push_back(block);
    } else if (inside) {
      block += line + "\n";
    }
  }
  return found;
}

// Expects the same fields at every depth; numbers and texts may differ.
void expect_same_shape(const json& shown, const json& got, const std::string& where) {
  EXPECT_STREQ(shown.type_name(), got.type_name()) << where;
  if (shown.is_object() && got.is_object()) {
    for (const auto& [name, value] : shown.items()) {
      EXPECT_TRUE(got.contains(name)) << where << ": the server sends no '" << name << "'";
      if (got.contains(name)) expect_same_shape(value, got[name], where + "." + name);
    }
    for (const auto& [name, value] : got.items())
      EXPECT_TRUE(shown.contains(name)) << where << ": the document has no '" << name << "'";
  } else if (shown.is_array() && got.is_array()) {
    EXPECT_EQ(shown.size(), got.size()) << where;
    for (size_t i = 0; i < std::min(shown.size(), got.size()); ++i)
      expect_same_shape(shown[i], got[i], where + "[" + std::to_string(i) + "]");
  }
}

class DocsTest : public ServerFixture {};

TEST_F(DocsTest, ExamplesMatchTheServer) {
  start();
  auto connected = client();
  json answer;  // to the last request
  std::string op;
  std::set<std::string> shown_ops;
  for (const std::string& text : examples()) {
    const json example = json::parse(text, nullptr, false);
    ASSERT_FALSE(example.is_discarded()) << text;
    EXPECT_EQ(example["v"], 1) << text;
    if (example.contains("op")) {
      const auto request = parse_request(text);
      ASSERT_TRUE(request) << text << request.error().error.message;
      const auto operation = parse_operation(request->op, request->args);
      ASSERT_TRUE(operation) << text << operation.error().message;
      op = request->op;
      shown_ops.insert(op);
      auto result = connected->call(op, request->args, kTestTimeoutNs);
      answer = result ? json{{"ok", *result}}
                      : json{{"error",
                              {{"code", code_name(result.error().error.code)},
                               {"message", result.error().error.message}}}};
    } else if (example.contains("ok") || example.contains("error")) {
      json shown = example;
      shown.erase("v");
      shown.erase("id");
      // FakeAppliance makes up the contents of these answers.
      const std::set<std::string> appliances = {"group.list", "stats", "drops", "device",
                                                "device.reset"};
      if (shown.contains("ok") && appliances.contains(op)) continue;
      if (op == "health") {
        shown["ok"]["appliance"] = answer["ok"]["appliance"];
      }
      expect_same_shape(shown, answer, op);
      if (shown.contains("error")) {
        EXPECT_EQ(shown, answer);
      }
    }
  }
  for (const std::string& name : operation_names())
    EXPECT_TRUE(shown_ops.contains(name)) << "docs/control.md has no example of " << name;
}

TEST_F(DocsTest, NamesEveryErrorCodeAndLimit) {
  const std::string text = document();
  for (const Code code : {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists,
                          Code::kPermission, Code::kResourceExhausted, Code::kUnavailable,
                          Code::kUnsupported, Code::kCorrupt, Code::kInternal})
    EXPECT_NE(text.find(std::string("`") + code_name(code) + "`"), std::string::npos)
        << code_name(code);
  EXPECT_EQ(kMaxRequestBytes, 65'536u);
  EXPECT_NE(text.find("65,536 bytes"), std::string::npos);
  EXPECT_NE(text.find(std::to_string(kMaxDepth) + " levels"), std::string::npos);
}

}  // namespace
}  // namespace itif::control
