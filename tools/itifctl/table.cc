#include "table.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/units.h"
#include "context.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr const char* kNothing = "-";
constexpr size_t kGap = 2;

// Approximate width on a terminal: the number of code points.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void pad(std::string& line, size_t blanks) {
  line.append(blanks, ' ');
}

const json* field_of(const json& object, const char* field) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(field);
  return found == object.end() ? nullptr : &*found;
}

template <class Format>
std::string number_cell(const json& object, const char* field, Format format) {
  const json* value = field_of(object, field);
  if (value == nullptr || !value->is_number()) return kNothing;
  const double number = value->get<double>();
  return std::isfinite(number) && number >= 0 ? format(*value) : kNothing;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto print = [&](auto cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const size_t blanks = widths[c] - width_of(cell);
      if (columns_[c].align == Align::kRight) pad(line, blanks);
      line += cell;
      if (columns_[c].align == Align::kLeft) pad(line, blanks);
      pad(line, kGap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  print([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) print([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

void Facts::add(std::string name, std::string value) {
  lines_.emplace_back(std::move(name), printable(value));
}

std::string Facts::text() const {
  size_t width = 0;
  for (const auto& [name, value] : lines_) width = std::max(width, width_of(name));
  std::string out;
  for (const auto& [name, value] : lines_) {
    out += name;
    pad(out, width - width_of(name) + kGap);
    out += value + "\n";
  }
  return out;
}

std::string with_thousands(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string text_cell(const json& object, const char* field) {
  const json* value = field_of(object, field);
  if (value == nullptr || value->is_null()) return kNothing;
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    return text.empty() ? kNothing : text;
  }
  return value->dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string count_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) {
    return n.is_number_float() ? fmt::format("{:g}", n.get<double>())
                               : with_thousands(n.get<uint64_t>());
  });
}

std::string rate_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) {
    const double value = n.get<double>();
    const auto whole = static_cast<uint64_t>(value);
    return fmt::format("{}.{}", with_thousands(whole),
                       static_cast<int>((value - static_cast<double>(whole)) * 10));
  });
}

std::string gue_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) {
    const double value = n.get<double>();
    if (value <= 0) return std::string(kNothing);
    if (value >= 999.5) return with_thousands(static_cast<uint64_t>(std::llround(value)));
    return fmt::format("{:.3g}", value);
  });
}

std::string duration_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) {
    const auto ns = n.get<uint64_t>();
    return ns == 0 ? std::string(kNothing) : format_duration_ns(ns);
  });
}

std::string bytes_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) { return format_bytes(n.get<uint64_t>()); });
}

std::string time_cell(const json& object, const char* field) {
  return number_cell(object, field, [](const json& n) {
    const auto seconds = static_cast<std::time_t>(n.get<uint64_t>() / 1'000'000'000);
    return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(seconds));
  });
}

uint64_t sum_of(const json& counters) {
  uint64_t sum = 0;
  if (!counters.is_object()) return sum;
  for (const auto& [name, count] : counters.items()) {
    if (count.is_number_unsigned()) sum += count.get<uint64_t>();
  }
  return sum;
}

}  // namespace itif::ctl
