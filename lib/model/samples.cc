#include "model/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "json/json_file.h"

namespace itif::model {
namespace {

using nlohmann::json;

constexpr size_t kMaxImageBytes = 16u << 20;  // a message on the wire

std::unexpected<Error> wrong(const std::string& origin, const std::string& what) {
  return fail(Code::kInvalidArgument, fmt::format("{}: {}", origin, what));
}

Status check_keys(const json& object, std::initializer_list<std::string_view> known,
                  const std::string& origin) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end())
      return wrong(origin, fmt::format("unknown key '{}'", key));
  return {};
}

Result<std::vector<uint32_t>> get_ids(const json& array, const char* key,
                                      const std::string& origin) {
  std::vector<uint32_t> ids;
  if (!array.is_array()) return wrong(origin, fmt::format("'{}' must be an array", key));
  for (const json& id : array) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      return wrong(origin, fmt::format("'{}' must hold ids, found {}", key, json_file::shown(id)));
    ids.push_back(id.get<uint32_t>());
  }
  return ids;
}

// Nested arrays are read row by row.
Status add_values(const json& array, std::vector<float>& values, const std::string& origin) {
  for (const json& value : array) {
    if (value.is_array()) {
      ITIF_TRY(add_values(value, values, origin));
      continue;
    }
    if (!value.is_number() || !std::isfinite(value.get<float>()))
      return wrong(origin,
                   fmt::format("'values' must hold numbers, found {}", json_file::shown(value)));
    values.push_back(value.get<float>());
  }
  return {};
}

void set_payload(Sample& sample, const char* kind, const void* data, size_t bytes) {
  sample.payload_kind = kind;
  sample.payload.resize(bytes);
  if (bytes > 0) std::memcpy(sample.payload.data(), data, bytes);
}

Result<std::string> get_text(const json& object, const char* key, const std::string& origin) {
  if (!object[key].is_string()) return wrong(origin, fmt::format("'{}' must be a string", key));
  return object[key].get<std::string>();
}

Status read_image(const json& object, const char* kind, const std::string& directory,
                  Sample& sample) {
  ITIF_ASSIGN(const std::string name, get_text(object, kind, sample.origin));
  if (name.empty() || std::filesystem::path(name).filename() != name)
    return wrong(sample.origin,
                 fmt::format("'{}' must be the name of a file of the directory", kind));
  ITIF_ASSIGN(const std::string bytes,
              json_file::read_text_file(directory + "/" + name, kMaxImageBytes));
  set_payload(sample, kind, bytes.data(), bytes.size());
  return {};
}

Status read_input(const json& object, const std::string& directory, Sample& sample) {
  const std::string& origin = sample.origin;
  const size_t num_inputs = static_cast<size_t>(object.contains("text")) + object.contains("ids") +
                            object.contains("image_u8") + object.contains("image_f32");
  if (num_inputs != 1)
    return wrong(origin, "give one of 'text', 'ids', 'image_u8' and 'image_f32'");
  if ((object.contains("pair") || object.contains("truncate")) && !object.contains("text"))
    return wrong(origin, "'pair' and 'truncate' belong to a 'text'");
  for (const char* kind : {"image_u8", "image_f32"})
    if (object.contains(kind)) return read_image(object, kind, directory, sample);
  if (object.contains("ids")) {
    ITIF_ASSIGN(const std::vector<uint32_t> ids, get_ids(object["ids"], "ids", origin));
    if (ids.empty()) return wrong(origin, "'ids' is empty");
    set_payload(sample, "tokens_u32", ids.data(), ids.size() * sizeof(uint32_t));
    return {};
  }
  ITIF_ASSIGN(std::string text, get_text(object, "text", origin));
  if (object.contains("pair")) {
    ITIF_ASSIGN(const std::string pair, get_text(object, "pair", origin));
    text += '\0' + pair;
  }
  set_payload(sample, "text", text.data(), text.size());
  ITIF_ASSIGN(sample.truncate, json_file::get_bool_or(object, "truncate", false, origin));
  return {};
}

Status read_expected(const json& expect, Sample& sample) {
  const std::string& origin = sample.origin;
  ITIF_TRY(check_keys(expect, {"values", "tolerance", "label", "tokens", "text"}, origin));
  const size_t num_kinds = static_cast<size_t>(expect.contains("values")) +
                           expect.contains("label") + expect.contains("tokens") +
                           expect.contains("text");
  if (num_kinds != 1)
    return wrong(origin, "'expect' must have one of 'values', 'label', 'tokens' and 'text'");
  if (expect.contains("tolerance") && !expect.contains("values"))
    return wrong(origin, "'tolerance' belongs to 'values'");
  if (expect.contains("label")) {
    ITIF_ASSIGN(std::string label, get_text(expect, "label", origin));
    sample.expected = ExpectedLabel{std::move(label)};
  } else if (expect.contains("text")) {
    ITIF_ASSIGN(std::string text, get_text(expect, "text", origin));
    sample.expected = ExpectedText{std::move(text)};
  } else if (expect.contains("tokens")) {
    ITIF_ASSIGN(std::vector<uint32_t> ids, get_ids(expect["tokens"], "tokens", origin));
    sample.expected = ExpectedTokens{std::move(ids)};
  } else {
    ExpectedValues values;
    if (!expect["values"].is_array()) return wrong(origin, "'values' must be an array");
    ITIF_TRY(add_values(expect["values"], values.values, origin));
    if (values.values.empty()) return wrong(origin, "'values' is empty");
    ITIF_ASSIGN(values.tolerance,
                json_file::get_number_or(expect, "tolerance", 0, 1e9, kDefaultTolerance, origin));
    sample.expected = std::move(values);
  }
  return {};
}

}  // namespace

Result<Sample> parse_sample(std::string_view line, const std::string& directory,
                            const std::string& origin) {
  ITIF_ASSIGN(const json object, json_file::parse_json_object(line, origin));
  Sample sample;
  ITIF_ASSIGN(const std::string name, json_file::get_string_or(object, "name", "", origin));
  sample.origin = name.empty() ? origin : fmt::format("{} ({})", origin, name);
  ITIF_TRY(check_keys(
      object,
      {"name", "text", "pair", "truncate", "ids", "image_u8", "image_f32", "kind", "expect"},
      sample.origin));
  ITIF_ASSIGN(sample.result_kind,
              json_file::get_string_or(object, "kind", sample.result_kind, sample.origin));
  ITIF_TRY(read_input(object, directory, sample));
  if (!object.contains("expect") || !object["expect"].is_object())
    return wrong(sample.origin, "'expect' must be an object that says what the model answers");
  ITIF_TRY(read_expected(object["expect"], sample));
  return sample;
}

Result<std::vector<Sample>> read_samples(const std::string& directory) {
  const std::string path = directory + "/" + kSamplesFile;
  std::vector<Sample> samples;
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return samples;
  ITIF_ASSIGN(const std::string text,
              json_file::read_text_file(path, json_file::kMaxJsonFileBytes));
  std::string_view rest = text;
  for (uint32_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string origin = fmt::format("{}:{}", path, number);
    if (samples.size() == kMaxSamples)
      return wrong(origin, fmt::format("more than {} samples", kMaxSamples));
    ITIF_ASSIGN(Sample sample, parse_sample(line, directory, origin));
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace itif::model
