// Wrong requests, and the part of the refusal that names the fault.
#include "control/message.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "control/operation.h"

namespace itif::control {
namespace {

using nlohmann::json;

struct Wrong {
  const char* name;
  std::string request;
  const char* says;  // part of the message
  json id = nullptr;
};

class WrongMessage : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongMessage, IsRefusedByName) {
  const auto request = parse_request(GetParam().request);
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().error.message.find(GetParam().says), std::string::npos)
      << request.error().error.message;
  EXPECT_EQ(request.error().id, GetParam().id);
  EXPECT_EQ(request.error().error.message.find('\n'), std::string::npos);
}

std::string nested(int depth) {
  return R"({"v":1,"id":1,"op":"x","args":)" + std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']') + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongMessage,
    ::testing::Values(
        Wrong{"Empty", "", "not JSON"}, Wrong{"Truncated", R"({"v":1,"id":1,"op":"he)", "not JSON"},
        Wrong{"Binary", std::string("\x00\xff\xfe\x01", 4), "not JSON"},
        Wrong{"NotUtf8", "{\"v\":1,\"id\":1,\"op\":\"\xc3\x28\"}", "not JSON"},
        Wrong{"Trailing", R"({"v":1,"id":1,"op":"health"} x)", "not JSON"},
        Wrong{"TwoObjects", R"({"v":1,"id":1,"op":"a"}{"v":1})", "not JSON"},
        Wrong{"NaN", R"({"v":1,"id":NaN,"op":"health"})", "not JSON"},
        Wrong{"Array", "[1,2]", "must be an object"}, Wrong{"Number", "17", "must be an object"},
        Wrong{"Null", "null", "must be an object"},
        Wrong{"NoId", R"({"v":1,"op":"health"})", "'id' is missing"},
        Wrong{"NegativeId", R"({"v":1,"id":-1,"op":"health"})", "'id'"},
        Wrong{"FloatId", R"({"v":1,"id":1.5,"op":"health"})", "'id'"},
        Wrong{"NullId", R"({"v":1,"id":null,"op":"health"})", "'id'"},
        Wrong{"ObjectId", R"({"v":1,"id":{},"op":"health"})", "'id'"},
        Wrong{"LongId", R"({"v":1,"id":")" + std::string(65, 'x') + R"(","op":"health"})", "'id'"},
        Wrong{"NoVersion", R"({"id":7,"op":"health"})", "'v' is missing", 7},
        Wrong{"OtherVersion", R"({"v":2,"id":7,"op":"health"})", "version 1 only", 7},
        Wrong{"TextVersion", R"({"v":"1","id":7,"op":"health"})", "'v'", 7},
        Wrong{"HugeVersion", R"({"v":99999999999999999999,"id":7,"op":"health"})", "'v'", 7},
        Wrong{"NoOp", R"({"v":1,"id":"q"})", "'op' is missing", "q"},
        Wrong{"NumberOp", R"({"v":1,"id":1,"op":1})", "'op' must be a string", 1},
        Wrong{"ArrayArgs", R"({"v":1,"id":1,"op":"health","args":[]})", "'args' must be", 1},
        Wrong{"NullArgs", R"({"v":1,"id":1,"op":"health","args":null})", "'args' must be", 1},
        Wrong{"UnknownField", R"({"v":1,"id":1,"op":"health","user":"x"})", "'user' is unknown", 1},
        Wrong{"OpTwice", R"({"v":1,"id":1,"op":"health","op":"drain"})", "key \"op\" occurs twice",
              1},
        Wrong{"IdTwice", R"({"v":1,"id":1,"id":2,"op":"health"})", "key \"id\" occurs twice"},
        Wrong{"ArgumentTwice", R"({"v":1,"op":"x","args":{"a":1,"b":2,"a":1},"id":1})",
              "key \"args.a\" occurs twice", 1},
        Wrong{"DeepKeyTwice", R"({"v":1,"id":1,"op":"x","args":{"a":[{"b":{"c":1,"d":0,"c":1}}]}})",
              "key \"args.a.b.c\" occurs twice", 1},
        Wrong{"EscapedKeyTwice", R"({"v":1,"id":1,"op":"x","args":{"ab":1,"\u0061b":2}})",
              "key \"args.ab\" occurs twice", 1},
        Wrong{"EmptyKeyTwice", R"({"v":1,"id":1,"op":"x","":1,"":2})", "key \"\" occurs twice", 1},
        Wrong{"StrangeKeyTwice", R"({"v":1,"id":1,"op":"x","a\nb":1,"a\nb":2})",
              "key \"a\\nb\" occurs twice", 1},
        Wrong{"Deep", nested(17), "nested deeper"},
        Wrong{"VeryDeep", nested(30'000), "nested deeper"},
        Wrong{"OpenBrackets", std::string(60'000, '['), "nested deeper"},
        Wrong{"Long", std::string(kMaxRequestBytes + 1, ' '), "65537 bytes"}),
    [](const auto& info) { return info.param.name; });

TEST(Message, AcceptsValidRequests) {
  const auto plain = parse_request(R"({"v":1,"id":18446744073709551615,"op":"health"})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->id, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(plain->args, json::object());
  const std::string with_nul =
      std::string(R"({"v":1,"id":1,"op":"health"})") + std::string(1, '\0') + "{}";
  const auto refused = parse_request(with_nul);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().error.message.find("NUL"), std::string::npos);
  const auto brackets =
      parse_request(R"({"v":1,"id":"[[\"[[","op":"[[[[[[[[[[[[[[[[[[[[[[[[","args":{}})");
  ASSERT_TRUE(brackets) << brackets.error().error.message;
  EXPECT_TRUE(
      parse_request(R"({"v":1,"id":1,"op":"x","args":{"a":{"a":1},"b":[{"a":1},{"a":2}]}})"))
      << "equal keys of different objects";
  EXPECT_TRUE(parse_request(nested(15)).error().error.message.find("'args'") != std::string::npos);
}

TEST(Message, MutatedRequestsGetValidJsonAnswers) {
  const std::string good =
      R"({"v":1,"id":1,"op":"tenant.add","args":{"name":"a","model_dir":"/m","slo_ns":25}})";
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      const size_t at = random.below(bytes.size());
      switch (random.below(3)) {
        case 0: bytes[at] = static_cast<char>(random.below(256)); break;
        case 1: bytes.erase(at, 1 + random.below(8)); break;
        case 2: bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(8))); break;
      }
    }
    const auto request = parse_request(bytes);
    // Both outcomes must give an answer of valid JSON.
    const std::string answer = request ? ok_message(request->id, json::object())
                                       : error_message(request.error().id, request.error().error);
    EXPECT_TRUE(json::accept(answer));
    if (request) (void)parse_operation(request->op, request->args);
  }
}

TEST(Message, AnswersAreJsonEvenIfTheyQuoteInvalidText) {
  EXPECT_TRUE(json::accept(error_message("id", {Code::kInternal, "bytes \xff\xfe \"quoted\"\n"})));
  for (const char* key : {"0123456789abcdef0123456789abcdef", "", "a", "not hex \"", "??"}) {
    const json result = {{"key", key}, {"tenant", {{"name", "\"key\":\"??"}}}};
    EXPECT_EQ(json::parse(ok_message("\"key\":\"", result)).at("ok"), result);
  }
  EXPECT_EQ(json::parse(ok_message(3, {{"a", 1}})),
            (json{{"v", 1}, {"id", 3}, {"ok", {{"a", 1}}}}));
  const auto fraction = [](double value) {
    return json::parse(progress_message(1, "s", value))["progress"]["fraction"].get<double>();
  };
  EXPECT_EQ(fraction(0.25), 0.25);
  EXPECT_EQ(fraction(7), 1.0);
  EXPECT_EQ(fraction(-1), 0.0);
  EXPECT_EQ(fraction(std::numeric_limits<double>::quiet_NaN()), 0.0);
  for (const Code code : {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists,
                          Code::kPermission, Code::kResourceExhausted, Code::kUnavailable,
                          Code::kUnsupported, Code::kCorrupt, Code::kInternal})
    EXPECT_EQ(parse_code(code_name(code)), code);
}

struct WrongArgs {
  const char* name;
  const char* op;
  const char* args;
  const char* says;
};

class WrongArguments : public ::testing::TestWithParam<WrongArgs> {};

TEST_P(WrongArguments, AreRefusedByName) {
  const auto operation = parse_operation(GetParam().op, json::parse(GetParam().args));
  ASSERT_FALSE(operation);
  EXPECT_NE(operation.error().message.find(GetParam().says), std::string::npos)
      << operation.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongArguments,
    ::testing::Values(
        WrongArgs{"UnknownOp", "tenant.destroy", "{}", "tenant.destroy"},
        WrongArgs{"EmptyOp", "", "{}", "op '' is unknown"},
        WrongArgs{"HealthTakesNothing", "health", R"({"x":1})",
                  "'x' is unknown: it takes no arguments"},
        WrongArgs{"NoName", "tenant.add", R"({"model_dir":"/m"})", "'name' is missing"},
        WrongArgs{"NoModel", "tenant.add", R"({"name":"a"})", "'model_dir' is missing"},
        WrongArgs{"Misspelt", "tenant.add", R"({"name":"a","model":"/m"})", "'model' is unknown"},
        WrongArgs{"NumberName", "tenant.add", R"({"name":1,"model_dir":"/m"})",
                  "'name' must be a string"},
        WrongArgs{"EmptyName", "tenant.add", R"({"name":"","model_dir":"/m"})", "'name'"},
        WrongArgs{"DigitName", "tenant.add", R"({"name":"1a","model_dir":"/m"})", "'name'"},
        WrongArgs{"SpaceName", "tenant.add", R"({"name":"a b","model_dir":"/m"})", "'name'"},
        WrongArgs{"DashName", "tenant.add", R"({"name":"-a","model_dir":"/m"})", "'name'"},
        WrongArgs{"NulName", "tenant.add", R"({"name":"a\u0000","model_dir":"/m"})", "'name'"},
        WrongArgs{"UnicodeName", "tenant.add", R"({"name":"ä","model_dir":"/m"})", "'name'"},
        WrongArgs{
            "LongName", "tenant.add",
            R"({"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","model_dir":"/m"})",
            "'name'"},
        WrongArgs{"RelativeModel", "tenant.add", R"({"name":"a","model_dir":"m"})",
                  "absolute path"},
        WrongArgs{"WrongBase", "tenant.add", R"({"name":"a","model_dir":"/m","base":"b/c"})",
                  "'base' must be"},
        WrongArgs{"EmptyBase", "tenant.update", R"({"tenant":"a","base":""})", "'base' must be"},
        WrongArgs{"NulModel", "tenant.add", R"({"name":"a","model_dir":"/m\u0000x"})",
                  "'model_dir'"},
        WrongArgs{"BadGroup", "tenant.add", R"({"name":"a","model_dir":"/m","group":"a/b"})",
                  "'group'"},
        WrongArgs{"NegativeSlo", "tenant.add", R"({"name":"a","model_dir":"/m","slo_ns":-1})",
                  "'slo_ns'"},
        WrongArgs{"FloatSlo", "tenant.add", R"({"name":"a","model_dir":"/m","slo_ns":1.0})",
                  "'slo_ns'"},
        WrongArgs{"TextSlo", "tenant.add", R"({"name":"a","model_dir":"/m","slo_ns":"25ms"})",
                  "'slo_ns'"},
        WrongArgs{"HugeSlo", "tenant.add",
                  R"({"name":"a","model_dir":"/m","slo_ns":3600000000001})", "'slo_ns'"},
        WrongArgs{"ZeroWeight", "tenant.add", R"({"name":"a","model_dir":"/m","weight":0})",
                  "'weight'"},
        WrongArgs{"HugeWeight", "tenant.add", R"({"name":"a","model_dir":"/m","weight":1001})",
                  "from 1 to 1000"},
        WrongArgs{"BoolQuota", "tenant.add", R"({"name":"a","model_dir":"/m","quota_rps":true})",
                  "'quota_rps'"},
        WrongArgs{"HugeQuota", "tenant.add",
                  R"({"name":"a","model_dir":"/m","quota_rps":4294967296})", "'quota_rps'"},
        WrongArgs{"BadAuth", "tenant.add", R"({"name":"a","model_dir":"/m","auth":"all"})",
                  "none, header, full"},
        WrongArgs{"NumberAuth", "tenant.add", R"({"name":"a","model_dir":"/m","auth":1})",
                  "'auth'"},
        WrongArgs{"NullGroup", "tenant.add", R"({"name":"a","model_dir":"/m","group":null})",
                  "'group'"},
        WrongArgs{"NoTenant", "tenant.show", "{}", "'tenant' must be given"},
        WrongArgs{"FloatTenant", "tenant.show", R"({"tenant":1.5})", "'tenant'"},
        WrongArgs{"HugeTenant", "tenant.show", R"({"tenant":4294967296})", "'tenant'"},
        WrongArgs{"NegativeTenant", "tenant.remove", R"({"tenant":-1})", "'tenant'"},
        WrongArgs{"EmptyTenant", "tenant.pause", R"({"tenant":""})", "'tenant'"},
        WrongArgs{"NothingToUpdate", "tenant.update", R"({"tenant":"a"})", "nothing to change"},
        WrongArgs{"ReloadFalse", "tenant.update", R"({"tenant":"a","reload":false})",
                  "nothing to change"},
        WrongArgs{"TextReload", "tenant.update", R"({"tenant":"a","reload":"yes"})",
                  "'reload' must be true or false"},
        WrongArgs{"CanaryOfAll", "tenant.update",
                  R"({"tenant":"a","model_dir":"/m","canary_percent":100})", "'canary_percent'"},
        WrongArgs{"CanaryOfNone", "tenant.update",
                  R"({"tenant":"a","model_dir":"/m","canary_percent":0})", "'canary_percent'"},
        WrongArgs{"TextCanary", "tenant.update",
                  R"({"tenant":"a","model_dir":"/m","canary_percent":"5%"})", "'canary_percent'"},
        WrongArgs{"RollbackTo", "tenant.rollback", R"({"tenant":"a","version":1})",
                  "'version' is unknown"},
        WrongArgs{"LongRemoval", "tenant.remove", R"({"tenant":"a","timeout_ns":86400000000001})",
                  "'timeout_ns'"},
        WrongArgs{"UpdateGroup", "tenant.update", R"({"tenant":"a","group":"g"})",
                  "'group' is unknown"},
        WrongArgs{"DropNumber", "tenant.rotate_key", R"({"tenant":"a","drop_previous":1})",
                  "'drop_previous'"},
        WrongArgs{"NoStages", "tenant.stages", "{}", "'tenant' must be given"},
        WrongArgs{"StagesOfAll", "tenant.stages", R"({"tenant":"a","stage":"queue"})",
                  "'stage' is unknown"},
        WrongArgs{"BottleneckOfNumber", "group.bottleneck", R"({"group":1})",
                  "'group' must be a string"},
        WrongArgs{"BottleneckOfAnInstant", "group.bottleneck", R"({"interval_ns":999999999})",
                  "'interval_ns'"},
        WrongArgs{"BottleneckOfADay", "group.bottleneck", R"({"interval_ns":86400000000000})",
                  "'interval_ns'"},
        WrongArgs{"BottleneckOfNoName", "group.bottleneck", R"({"group":""})", "'group'"},
        WrongArgs{"BottleneckOfUnknown", "group.bottleneck", R"({"interval":1})",
                  "'interval' is unknown"},
        WrongArgs{"TraceOfNobody", "trace.start", R"({"requests":1})", "'tenant' must be given"},
        WrongArgs{"TraceOfNothing", "trace.start", R"({"tenant":"a","requests":0})",
                  "'requests' must be an integer from 1 to 1000"},
        WrongArgs{"HugeTrace", "trace.start", R"({"tenant":"a","requests":1001})", "'requests'"},
        WrongArgs{"TextTrace", "trace.start", R"({"tenant":"a","requests":"5"})", "'requests'"},
        WrongArgs{"ReadNoTrace", "trace.read", R"({"first":1})", "'trace' must be given"},
        WrongArgs{"ReadFloatTrace", "trace.read", R"({"trace":1.0})", "'trace'"},
        WrongArgs{"ReadHugeTrace", "trace.read", R"({"trace":4294967296})", "'trace'"},
        WrongArgs{"ReadFromNegative", "trace.read", R"({"trace":1,"first":-1})", "'first'"},
        WrongArgs{"StopNoTrace", "trace.stop", "{}", "'trace' must be given"},
        WrongArgs{"StopTextTrace", "trace.stop", R"({"trace":"1"})", "'trace'"},
        WrongArgs{"LongDrain", "drain", R"({"timeout_ns":86400000000001})", "'timeout_ns'"}),
    [](const auto& info) { return info.param.name; });

TEST(Operation, FillsInTheDefaults) {
  const auto operation = parse_operation("tenant.add", {{"name", "a"}, {"model_dir", "/m"}});
  ASSERT_TRUE(operation);
  const auto& add = std::get<AddTenant>(std::get<WorkerOperation>(*operation));
  EXPECT_EQ(add.group, "");
  EXPECT_EQ(add.settings.slo_ns, 0u);
  EXPECT_EQ(add.settings.weight, 1u);
  EXPECT_EQ(add.settings.quota_rps, 0u);
  EXPECT_EQ(add.settings.auth, static_cast<uint8_t>(wire::Auth::kFull));
}

TEST(Operation, ChangesOnlyTheSettingsThatAreGiven) {
  for (const tenant::SettingField& given : tenant::kSettingFields) {
    json args = {{"tenant", "a"}};
    if (given.choices.empty())
      args[given.name] = given.max;
    else
      args[given.name] = given.choices[given.max];
    const auto operation = parse_operation("tenant.update", args);
    ASSERT_TRUE(operation) << given.name;
    tenant::Settings changed;
    const tenant::Settings before;
    std::get<UpdateTenant>(std::get<WorkerOperation>(*operation)).settings.apply(changed);
    for (const tenant::SettingField& field : tenant::kSettingFields)
      EXPECT_EQ(field.get(changed), field.name == given.name ? given.max : field.get(before))
          << field.name << " when " << given.name << " is given";
  }
}

}  // namespace
}  // namespace itif::control
