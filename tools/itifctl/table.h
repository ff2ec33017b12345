// Text tables with aligned columns.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace itif::ctl {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Adds a row; control characters in cells become '?'. REQUIRES: a cell for each column.
  void add(std::vector<std::string> cells);
  // Lines end in '\n' and have no trailing blanks.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Aligned lines of "name  value".
class Facts {
 public:
  void add(std::string name, std::string value);
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// Formats a field of a server document as a cell; "-" if it is missing or has another type.
std::string text_cell(const nlohmann::json& object, const char* field);
std::string count_cell(const nlohmann::json& object, const char* field);  // 1,234,567
std::string rate_cell(const nlohmann::json& object, const char* field);   // 1,234.5
// GUE with three digits, also of small values: 2,160 or 83.7 or 0.00714; 0: "-"
std::string gue_cell(const nlohmann::json& object, const char* field);
// ns → "9.8 ms"; 0: "-"
std::string duration_cell(const nlohmann::json& object, const char* field);
std::string bytes_cell(const nlohmann::json& object, const char* field);
std::string time_cell(const nlohmann::json& object, const char* field);  // unix ns → local time

std::string with_thousands(uint64_t number);
// The sum of an object of counters.
uint64_t sum_of(const nlohmann::json& counters);

}  // namespace itif::ctl
