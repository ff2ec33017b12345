#include "plan/cost_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>

namespace itif::plan {
namespace {

constexpr std::string_view kMagic = "itif-cost-tables ";
constexpr std::string_view kVersion = "6";
// The largest possible tables, at 25 bytes per cost, plus room for the other lines.
constexpr size_t kMaxFileBytes =
    kMaxBuckets * kMaxBuckets * (kMaxBuckets + 1 + std::size(kSharedGemmTables) * kMaxShapes) * 25 +
    16384;

uint64_t fnv1a(std::string_view bytes) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void put_axis(std::string& text, const char* name, const std::vector<uint32_t>& axis) {
  text += fmt::format("{} {}", name, axis.size());
  for (const uint32_t value : axis) text += fmt::format(" {}", value);
  text += '\n';
}

void put_costs(std::string& text, const char* name, const std::vector<double>& costs,
               size_t columns) {
  text += fmt::format("{}\n", name);
  for (size_t i = 0; i < costs.size(); ++i)
    text += fmt::format("{}{}", costs[i], (i + 1) % columns == 0 ? '\n' : ' ');
}

// Reads line by line. Keeps the first error; later reads return empty values.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // Returns the rest of the next line, which must begin with `start`.
  std::string_view line(std::string_view start) {
    ++number_;
    const size_t end = text_.find('\n');
    if (end == std::string_view::npos || !text_.substr(0, end).starts_with(start)) {
      wrong(fmt::format("should begin with '{}'", start));
      return {};
    }
    const std::string_view rest = text_.substr(start.size(), end - start.size());
    text_.remove_prefix(end + 1);
    return rest;
  }

  bool next_line_is(std::string_view line) const {
    return text_.substr(0, text_.find('\n')) == line;
  }
  bool line_after_next_starts(std::string_view start) const {
    const size_t end = text_.find('\n');
    return end != std::string_view::npos && text_.substr(end + 1).starts_with(start);
  }

  std::vector<uint32_t> axis(std::string_view start, size_t most = kMaxBuckets) {
    std::string_view rest = line(start);
    const uint32_t count = number<uint32_t>(rest);
    if (count > most) wrong(fmt::format("has more than {} values", most));
    std::vector<uint32_t> values;
    while (ok() && values.size() < count) {
      space(rest);
      values.push_back(number<uint32_t>(rest));
    }
    if (!rest.empty()) wrong("has values beyond its count");
    return values;
  }

  // Reads `rows` lines of `columns` costs.
  std::vector<double> costs(std::string_view heading, size_t rows, size_t columns) {
    if (!line(heading).empty()) wrong(fmt::format("should be '{}'", heading));
    std::vector<double> values;
    for (size_t row = 0; ok() && row < rows; ++row) {
      std::string_view rest = line("");
      for (size_t column = 0; ok() && column < columns; ++column) {
        if (column > 0) space(rest);
        values.push_back(number<double>(rest));
      }
      if (!rest.empty()) wrong(fmt::format("should hold {} costs", columns));
    }
    return values;
  }

  bool ok() const { return error_.empty(); }
  void wrong(const std::string& what) {
    if (ok()) error_ = fmt::format("cost tables, line {}: {}", number_, what);
    text_ = {};
  }
  void end() {
    ++number_;
    if (!text_.empty()) wrong("the tables should end before it");
  }
  const std::string& error() const { return error_; }

 private:
  template <class T>
  T number(std::string_view& rest) {
    T value{};
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (failure != std::errc{}) {
      wrong("a number is missing or out of range");
      rest = {};
      return {};
    }
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  }
  void space(std::string_view& rest) {
    if (rest.starts_with(' '))
      rest.remove_prefix(1);
    else
      wrong("has fewer values than it should");
  }

  std::string_view text_;
  size_t number_ = 0;
  std::string error_;
};

}  // namespace

std::string format_cost_tables(const CostTables& tables) {
  std::string text = fmt::format("{}{}\ndevice {}\nbackbone {}\n", kMagic, kVersion, tables.device,
                                 tables.backbone);
  put_axis(text, "lengths", tables.lengths);
  put_axis(text, "batches", tables.batches);
  put_axis(text, "counts", tables.counts);
  put_axis(text, "sizes", tables.sizes);
  put_costs(text, "gemm_ns", tables.gemm_ns, tables.batches.size());
  put_costs(text, "batched_gemm_ns", tables.batched_gemm_ns, tables.sizes.size());
  put_costs(text, "other_row_ns", tables.other_row_ns, tables.lengths.size());
  put_costs(text, "launch_ns", {tables.launch_ns}, 1);
  put_axis(text, "range_counts", tables.range_counts);
  put_axis(text, "range_rows", tables.range_rows);
  std::vector<uint32_t> shapes;
  for (const SharedGemm& gemm : tables.shared_gemms) {
    shapes.push_back(gemm.n);
    shapes.push_back(gemm.k);
    shapes.push_back(gemm.times);
  }
  put_axis(text, "shapes", shapes);
  for (const SharedGemm& gemm : tables.shared_gemms)
    for (const SharedGemmTable& table : kSharedGemmTables)
      if (const auto& costs = gemm.*table.costs_ns; !table.is_optional || !costs.empty())
        put_costs(text, table.name, costs, tables.range_rows.size());
  return text + fmt::format("end {:016x}\n", fnv1a(text));
}

Result<CostTables> parse_cost_tables(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (!first.starts_with(kMagic)) return fail(Code::kCorrupt, "not a file of cost tables");
  if (const auto version = first.substr(kMagic.size()); version != kVersion)
    return fail(
        Code::kUnsupported,
        fmt::format("cost tables of version {:.20}, not {}: measure again", version, kVersion));
  const size_t last = text.rfind("\nend ");
  if (last == std::string_view::npos ||
      text.substr(last + 1) != fmt::format("end {:016x}\n", fnv1a(text.substr(0, last + 1))))
    return fail(Code::kCorrupt,
                "cost tables are truncated or damaged: the last line is not the "
                "checksum of the lines before it");
  Reader reader(text.substr(0, last + 1));
  CostTables tables;
  reader.line(kMagic);
  tables.device = reader.line("device ");
  tables.backbone = reader.line("backbone ");
  tables.lengths = reader.axis("lengths ");
  tables.batches = reader.axis("batches ");
  tables.counts = reader.axis("counts ");
  tables.sizes = reader.axis("sizes ");
  const size_t batched_rows =
      tables.sizes.empty() ? 0 : tables.lengths.size() * tables.counts.size();
  tables.gemm_ns = reader.costs("gemm_ns", tables.lengths.size(), tables.batches.size());
  tables.batched_gemm_ns = reader.costs("batched_gemm_ns", batched_rows, tables.sizes.size());
  const bool has_others = !reader.line_after_next_starts("launch_ns\n");
  tables.other_row_ns = reader.costs("other_row_ns", has_others ? 1 : 0, tables.lengths.size());
  if (const auto launch = reader.costs("launch_ns", 1, 1); !launch.empty())
    tables.launch_ns = launch[0];
  tables.range_counts = reader.axis("range_counts ");
  tables.range_rows = reader.axis("range_rows ");
  const std::vector<uint32_t> shapes = reader.axis("shapes ", 3 * kMaxShapes);
  if (shapes.size() % 3 != 0) reader.wrong("needs n, k and times of each shape");
  for (size_t i = 0; reader.ok() && i < shapes.size(); i += 3) {
    SharedGemm& gemm = tables.shared_gemms.emplace_back();
    gemm.n = shapes[i];
    gemm.k = shapes[i + 1];
    gemm.times = shapes[i + 2];
    for (const SharedGemmTable& table : kSharedGemmTables)
      if (!table.is_optional || reader.next_line_is(table.name))
        gemm.*table.costs_ns =
            reader.costs(table.name, tables.range_counts.size(), tables.range_rows.size());
  }
  reader.end();
  if (!reader.ok()) return fail(Code::kCorrupt, reader.error());
  if (Status status = validate(tables); !status)
    return fail(Code::kCorrupt, status.error().message);
  return tables;
}

std::string profile_hash(std::string_view device, std::string_view backbone) {
  return fmt::format("{:016x}", fnv1a(fmt::format("{}\n{}", device, backbone)));
}

std::string cost_file_name(std::string_view device, std::string_view backbone) {
  return fmt::format("costs-{}.txt", profile_hash(device, backbone));
}

Result<CostTables> read_cost_tables(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(errno == ENOENT ? Code::kNotFound : Code::kPermission,
                fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return fail(Code::kCorrupt, fmt::format("{}: larger than any file of cost tables", path));
  auto tables = parse_cost_tables(text);
  if (!tables)
    return fail(tables.error().code, fmt::format("{}: {}", path, tables.error().message));
  return tables;
}

Status write_cost_tables(const CostTables& tables, const std::string& path) {
  ITIF_TRY(validate(tables));
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  if (!file)
    return fail(Code::kPermission, fmt::format("cannot write {}: {}", beside, errno_text(errno)));
  file << format_cost_tables(tables);
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(beside.c_str());
    return fail(Code::kResourceExhausted,
                fmt::format("could not write all of {}: {}", path, errno_text(error)));
  }
  return {};
}

}  // namespace itif::plan
