#include "json_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "wire/classes.h"

namespace itif::run {
namespace {

using nlohmann::json;
using wire::ResultKind;

Result<uint64_t> get_number(const json& value, const char* key, uint64_t most) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= most) return value.get<uint64_t>();
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' must be from 0 to {}, found {}", key, most, value.dump()));
}

template <class T>
Result<std::vector<T>> get_numbers(const json& object, const char* key, uint64_t most) {
  std::vector<T> numbers;
  const auto it = object.find(key);
  if (it == object.end()) return numbers;
  if (!it->is_array())
    return fail(Code::kInvalidArgument, fmt::format("'{}' must be an array", key));
  for (const json& value : *it) {
    ITIF_ASSIGN(const uint64_t number, get_number(value, key, most));
    numbers.push_back(static_cast<T>(number));
  }
  return numbers;
}

std::string format_classes(const std::vector<std::byte>& result) {
  json classes = json::array();
  wire::ClassReader reader(result);
  for (wire::ClassEntry entry; reader.next(entry);)
    classes.push_back({{"index", entry.index},
                       {"probability", entry.probability},
                       {"name", std::string(entry.name)}});
  return "\"classes\": " + classes.dump();
}

std::string format_tokens(const std::vector<std::byte>& result) {
  std::vector<uint32_t> ids(result.size() / sizeof(uint32_t));
  if (!ids.empty()) std::memcpy(ids.data(), result.data(), ids.size() * sizeof(uint32_t));
  return fmt::format("\"tokens\": [{}]", fmt::join(ids, ","));
}

std::string format_text(const std::vector<std::byte>& result) {
  return "\"text\": " +
         json(std::string(reinterpret_cast<const char*>(result.data()), result.size())).dump();
}

std::string format_values(const Output& output) {
  std::vector<float> values(output.result.size() / sizeof(float));
  if (!values.empty())
    std::memcpy(values.data(), output.result.data(), values.size() * sizeof(float));
  const bool by_token =
      output.kind == ResultKind::kHidden || output.kind == ResultKind::kTokenLogits;
  const size_t rows = by_token ? output.rows : 1;
  const size_t columns = rows ? values.size() / rows : 0;
  std::string text = by_token ? fmt::format("\"shape\": [{}, {}], \"values\": [", rows, columns)
                              : fmt::format("\"shape\": [{}], \"values\": [", columns);
  for (size_t i = 0; i < values.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i ? "," : "", values[i]);
  return text + "]";
}

std::string format_result(const Output& output) {
  switch (output.kind) {
    case ResultKind::kClasses: return format_classes(output.result);
    case ResultKind::kTokens: return format_tokens(output.result);
    case ResultKind::kText: return format_text(output.result);
    default: return format_values(output);
  }
}

// Reads the file of 'image_u8' or 'image_f32', if the line has one.
Status read_image(const json& object, Input& input) {
  for (const wire::PayloadKind kind : {wire::PayloadKind::kImageU8, wire::PayloadKind::kImageF32}) {
    const char* key = wire::payload_kind_name(kind);
    const auto it = object.find(key);
    if (it == object.end()) continue;
    if (!it->is_string())
      return fail(Code::kInvalidArgument, fmt::format("'{}' must be a file name", key));
    if (!input.image.empty())
      return fail(Code::kInvalidArgument, "a line may have 'image_u8' or 'image_f32', not both");
    std::ifstream file(it->get<std::string>(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (bytes.empty() || bytes.size() > wire::kMaxTotalBytes)
      return fail(Code::kNotFound,
                  fmt::format("'{}': {} is missing, empty or larger than 16 MiB", key, it->dump()));
    const auto payload = std::as_bytes(std::span(bytes));
    input.image.assign(payload.begin(), payload.end());
    input.image_kind = kind;
  }
  return {};
}

}  // namespace

Result<ResultKind> parse_kind(std::string_view name) {
  for (const ResultKind kind : wire::kResultKinds)
    if (name == wire::result_kind_name(kind)) return kind;
  std::vector<std::string> names;
  for (const ResultKind kind : wire::kResultKinds) names.emplace_back(wire::result_kind_name(kind));
  return fail(Code::kInvalidArgument,
              fmt::format("kind '{}' must be one of {}", name, fmt::join(names, ", ")));
}

Result<Input> parse_input(const std::string& line, ResultKind default_kind) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  for (const auto& [key, value] : object.items())
    if (key != "ids" && key != "token_types" && key != "text" && key != "pair" && key != "model" &&
        key != "kind" && key != "truncate" && key != "image_u8" && key != "image_f32")
      return fail(Code::kInvalidArgument, fmt::format("unknown key '{}'", key));
  Input input;
  input.kind = default_kind;
  ITIF_ASSIGN(input.ids, get_numbers<uint32_t>(object, "ids", UINT32_MAX));
  ITIF_ASSIGN(input.token_types, get_numbers<uint8_t>(object, "token_types", UINT8_MAX));
  if (object.contains("model")) {
    ITIF_ASSIGN(const uint64_t model, get_number(object["model"], "model", UINT32_MAX));
    input.model = static_cast<uint32_t>(model);
  }
  const auto get_text = [&](const char* key, std::optional<std::string>& out) -> Status {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return {};
    if (!it->is_string())
      return fail(Code::kInvalidArgument, fmt::format("'{}' must be a string", key));
    out = it->get<std::string>();
    return {};
  };
  ITIF_TRY(get_text("text", input.text));
  ITIF_TRY(get_text("pair", input.pair));
  std::optional<std::string> kind;
  ITIF_TRY(get_text("kind", kind));
  if (kind) {
    ITIF_ASSIGN(input.kind, parse_kind(*kind));
  }
  if (object.contains("truncate")) {
    if (!object["truncate"].is_boolean())
      return fail(Code::kInvalidArgument, "'truncate' must be true or false");
    input.truncate = object["truncate"].get<bool>();
  }
  ITIF_TRY(read_image(object, input));
  if (input.text.has_value() + !input.ids.empty() + !input.image.empty() != 1)
    return fail(Code::kInvalidArgument,
                "a line needs exactly one of 'ids' (not empty), 'text', 'image_u8', 'image_f32'");
  if (!input.token_types.empty() && input.token_types.size() != input.ids.size())
    return fail(Code::kInvalidArgument, "'token_types' must be as long as 'ids'");
  if (input.pair && !input.text) return fail(Code::kInvalidArgument, "'pair' needs 'text'");
  return input;
}

Result<std::string> format_sample(const Input& input, const Output& output) {
  if (output.status != wire::StatusCode::kOk)
    return fail(Code::kInvalidArgument,
                fmt::format("{} is no sample: {} ({})", input.line,
                            wire::status_name(output.status), output.detail));
  if (!input.token_types.empty() || (output.result.empty() && output.kind != ResultKind::kText))
    return fail(Code::kInvalidArgument,
                fmt::format("{} is no sample: it has token types, or was not run", input.line));
  json sample = json::parse(input.line);
  sample.erase("model");
  for (const char* key : {"text", "pair"})
    if (sample.contains(key) && sample[key].is_null()) sample.erase(key);
  sample["kind"] = wire::result_kind_name(output.kind);
  json& expect = sample["expect"];
  if (output.kind == ResultKind::kClasses) {
    wire::ClassReader reader(output.result);
    wire::ClassEntry best;
    if (reader.next(best)) expect["label"] = best.name;
  } else if (output.kind == ResultKind::kText) {
    expect["text"] =
        std::string(reinterpret_cast<const char*>(output.result.data()), output.result.size());
  } else if (output.kind == ResultKind::kTokens) {
    expect["tokens"] = json::array();
    for (size_t at = 0; at + sizeof(uint32_t) <= output.result.size(); at += sizeof(uint32_t)) {
      uint32_t id = 0;
      std::memcpy(&id, output.result.data() + at, sizeof id);
      expect["tokens"].push_back(id);
    }
  } else {
    for (size_t at = 0; at + sizeof(float) <= output.result.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, output.result.data() + at, sizeof value);
      expect["values"].push_back(value);
    }
  }
  return sample.dump();
}

std::string format_output(const Output& output, double us) {
  if (output.status != wire::StatusCode::kOk)
    return fmt::format("{{\"status\": \"{}\", \"detail\": {}}}", wire::status_name(output.status),
                       json(output.detail).dump());
  const std::string tokens =
      fmt::format("{{\"status\": \"ok\", \"ids\": [{}], \"token_types\": [{}]",
                  fmt::join(output.ids, ","), fmt::join(output.token_types, ","));
  if (output.result.empty() && output.kind != ResultKind::kText) return tokens + "}";
  return fmt::format("{}, \"kind\": \"{}\", {}, \"us\": {:.1f}}}", tokens,
                     wire::result_kind_name(output.kind), format_result(output), us);
}

}  // namespace itif::run
