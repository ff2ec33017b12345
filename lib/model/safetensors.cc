#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "json/json_file.h"

namespace itif::model {
namespace {

constexpr size_t kMaxTensorRank = 8;

struct TypeRow {
  std::string_view name;
  uint32_t bytes;
  std::optional<DType> dtype;
};
constexpr TypeRow kTypes[] = {
    {"F32", 4, DType::kF32},   {"F16", 2, DType::kF16},      {"BF16", 2, DType::kBF16},
    {"I64", 8, DType::kI64},   {"I32", 4, DType::kI32},      {"U32", 4, DType::kU32},
    {"U16", 2, DType::kU16},   {"U8", 1, DType::kU8},        {"F64", 8, std::nullopt},
    {"U64", 8, std::nullopt},  {"I16", 2, std::nullopt},     {"I8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt}, {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

const TypeRow* find_type(std::string_view name) {
  for (const TypeRow& row : kTypes)
    if (row.name == name) return &row;
  return nullptr;
}

// Reads one entry; its offsets still count from the data's start.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name) : file_(file), name_(name) {}

  Result<TensorEntry> read(const nlohmann::json& value) const {
    if (!value.is_object()) return corrupt("expected an object, found " + json_file::shown(value));
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.contains(key)) return corrupt(fmt::format("expected '{}', found none", key));
    for (const auto& item : value.items())
      if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets")
        return corrupt("unknown key " + json_file::shown(nlohmann::json(item.key())));

    TensorEntry entry;
    entry.name = name_;
    const TypeRow* type = nullptr;
    if (value["dtype"].is_string()) {
      entry.dtype_text = value["dtype"].get<std::string>();
      type = find_type(entry.dtype_text);
    }
    if (!type)
      return corrupt("expected a dtype of the format (F32, F16, BF16, …), found " +
                     json_file::shown(value["dtype"]));
    entry.dtype = type->dtype;

    const nlohmann::json& shape = value["shape"];
    if (!shape.is_array() || shape.size() > kMaxTensorRank)
      return corrupt(fmt::format("expected a shape of at most {} dimensions, found {}",
                                 kMaxTensorRank, json_file::shown(shape)));
    uint64_t expected_bytes = type->bytes;
    for (const nlohmann::json& dim : shape) {
      if (!dim.is_number_unsigned())
        return corrupt("expected a shape of non-negative integers, found " +
                       json_file::shown(shape));
      entry.dims.push_back(dim.get<uint64_t>());
      if (__builtin_mul_overflow(expected_bytes, entry.dims.back(), &expected_bytes))
        return corrupt("the product of shape " + shape_text(entry.dims) + " overflows");
    }

    const nlohmann::json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      return corrupt("expected data_offsets [begin, end], found " + json_file::shown(offsets));
    entry.begin = offsets[0].get<uint64_t>();
    entry.end = offsets[1].get<uint64_t>();
    if (entry.end < entry.begin)
      return corrupt("data_offsets end before they begin: " + json_file::shown(offsets));
    if (entry.end - entry.begin != expected_bytes)
      return corrupt(fmt::format("expected {} bytes for {} {}, found {}", expected_bytes,
                                 entry.dtype_text, shape_text(entry.dims),
                                 entry.end - entry.begin));
    return entry;
  }

 private:
  std::unexpected<Error> corrupt(const std::string& what) const {
    return fail(Code::kCorrupt, fmt::format("{}: tensor {}: {}", file_,
                                            json_file::shown(nlohmann::json(name_)), what));
  }
  const std::string& file_;
  const std::string& name_;
};

}  // namespace

std::string shape_text(std::span<const uint64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<uint64_t> parse_safetensors_prefix(std::span<const std::byte, 8> prefix, uint64_t file_bytes,
                                          const std::string& file) {
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | static_cast<uint64_t>(prefix[static_cast<size_t>(i)]);
  if (header_bytes > kMaxSafetensorsHeaderBytes)
    return fail(Code::kCorrupt, fmt::format("{}: expected a header of at most {} bytes, found {}: "
                                            "not a safetensors file, or damaged",
                                            file, kMaxSafetensorsHeaderBytes, header_bytes));
  if (file_bytes < 8 || header_bytes > file_bytes - 8)
    return fail(Code::kCorrupt, fmt::format("{}: expected a header of {} bytes, found {} bytes in "
                                            "the whole file: truncated",
                                            file, header_bytes, file_bytes));
  return header_bytes;
}

Result<std::vector<TensorEntry>> parse_safetensors_header(std::span<const std::byte> header,
                                                          uint64_t file_bytes,
                                                          const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (text.empty() || text.front() != '{')
    return fail(
        Code::kCorrupt,
        fmt::format("{}: expected a header that starts with '{{': not a safetensors file", file));
  ITIF_ASSIGN(const nlohmann::json document,
              json_file::parse_json_object(text, file + " (header)"));

  std::vector<TensorEntry> entries;
  entries.reserve(document.size());
  for (const auto& item : document.items()) {
    if (item.key() == "__metadata__") continue;
    const std::string name = item.key();
    ITIF_ASSIGN(TensorEntry entry, EntryReader(file, name).read(item.value()));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });

  const uint64_t data_begin = 8 + header.size();
  const uint64_t data_bytes = file_bytes - data_begin;
  uint64_t covered = 0;
  for (TensorEntry& entry : entries) {
    const auto corrupt = [&](const std::string& what) {
      return fail(Code::kCorrupt, fmt::format("{}: tensor {}: {}", file,
                                              json_file::shown(nlohmann::json(entry.name)), what));
    };
    if (entry.end > data_bytes)
      return corrupt(fmt::format("expected data up to byte {}, found {} bytes: truncated",
                                 entry.end, data_bytes));
    if (entry.begin < covered)
      return corrupt(
          fmt::format("expected data from byte {} on, found {}: it overlaps another tensor",
                      covered, entry.begin));
    if (entry.begin > covered)
      return corrupt(
          fmt::format("expected data from byte {} on, found {}: a gap", covered, entry.begin));
    covered = entry.end;
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  if (covered != data_bytes)
    return fail(Code::kCorrupt,
                fmt::format("{}: expected {} bytes of data, found {}", file, covered, data_bytes));
  return entries;
}

}  // namespace itif::model
