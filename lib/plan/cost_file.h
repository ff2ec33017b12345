// Cost tables as text: the file in which a group keeps its measurements, by device and backbone.
//
//   itif-cost-tables 6
//   device host, 2 CPUs, bf16
//   backbone bert 12x768, 12 heads
//   lengths 3 16 64 128
//   batches 2 1 8
//   counts 1 4
//   sizes 2 1 8
//   gemm_ns
//   91000.5 610000                  one line per length: costs by batch
//   …
//   batched_gemm_ns
//   310000 2300000                  one line per length and count, lengths outermost: costs by size
//   …
//   other_row_ns
//   2100 2300 2600                  by length; no line: not measured
//   launch_ns
//   310000                          0: not measured
//   range_counts 3 1 2 16
//   range_rows 3 8 32 128
//   shapes 12 2304 768 12 768 768 12 …              n, k and times of each
//   in_turn_ns
//   17000 40100 120000              one line per count: costs by rows
//   …
//   at_once_ns
//   …
//   streams_ns                      the tables from here on may be absent
//   …                               all tables repeat for each shape
//   end 5f2c8a0be1d3f467
//
// An axis line starts with the number of its values. `counts 0` and `sizes 0`: the device has no
// BatchedGEMM. All of the first four 0: no planner lays out this backbone's batches. Both range
// axes and `shapes` 0: there are no measurements for the GEMM scheduler.
//
// One space between values, "\n" at each line's end. The last line holds the FNV-1a hash (64 bits)
// of all bytes before it: it detects truncation and damage, not tampering. A group whose file is
// refused is measured again.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/cost_tables.h"

namespace itif::plan {

// REQUIRES: validate(tables). Costs read back as exactly the same numbers.
std::string format_cost_tables(const CostTables& tables);

// Accepts any bytes. Errors: kUnsupported (another version), kCorrupt (anything else that
// format_cost_tables() does not write; names a line of wrong format). The remedy for both is to
// measure again.
Result<CostTables> parse_cost_tables(std::string_view text);

// Returns 16 hexadecimal digits for a device and backbone, for names of files.
std::string profile_hash(std::string_view device, std::string_view backbone);

// Returns "costs-<hash of both>.txt", the file name for a device and backbone. Only the tables' own
// fields prove that a file belongs to them.
std::string cost_file_name(std::string_view device, std::string_view backbone);

// Errors: kNotFound (no file), kPermission, and those of parse_cost_tables(), with the path.
Result<CostTables> read_cost_tables(const std::string& path);

// Writes a new file, then renames it over `path`. Errors: those of validate(), kPermission,
// kResourceExhausted.
Status write_cost_tables(const CostTables& tables, const std::string& path);

}  // namespace itif::plan
