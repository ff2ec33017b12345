// Cost tables as text: the file in which a group keeps what it measured, by device and backbone.
//
//   itif-cost-tables 3
//   device host, 2 CPUs, bf16
//   backbone bert 12x768, 12 heads
//   lengths 3 16 64 128
//   batches 2 1 8
//   counts 1 4
//   sizes 2 1 8
//   gemm_ns
//   91000.5 610000                  one line a length: its costs by batch
//   …
//   batched_gemm_ns
//   310000 2300000                  one line a length and count, lengths outermost: costs by size
//   …
//   range_counts 2 2 16
//   range_rows 3 8 32 128
//   shapes 8 2304 768 768 768 3072 768 768 3072     n and k of each
//   in_turn_ns
//   17000 40100 120000              one line a count: costs by rows
//   …
//   at_once_ns
//   …                               and so for each shape
//   end 5f2c8a0be1d3f467
//
// An axis line holds how many values follow. `counts 0` and `sizes 0`: the device has no BatchedGEMM; all of
// the first four 0: no planner lays out this backbone's batches. Both range axes and `shapes` 0: nothing was
// measured that the GEMM scheduler could choose by.
//
// One space between values, "\n" at each line's end. The last line holds FNV-1a (64 bits) of all
// before it: it finds truncation and damage, not intent. A file that is refused is measured anew.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/cost_tables.h"

namespace itif::plan {

// REQUIRES: validate(tables). Costs are written so that they read back as the same numbers.
std::string format_cost_tables(const CostTables& tables);

// Takes any bytes. Errors: kUnsupported (another version), kCorrupt (anything else that
// format_cost_tables() does not write, with the line), each to be answered by measuring again.
Result<CostTables> parse_cost_tables(std::string_view text);

// "costs-<hash of both>.txt": a name for the tables of a device and backbone. The tables' own fields
// are the proof.
std::string cost_file_name(std::string_view device, std::string_view backbone);

// Errors: kNotFound (no file), kPermission, and those of parse_cost_tables(), with the path.
Result<CostTables> read_cost_tables(const std::string& path);

// Replaces the file by a finished one. Errors: those of validate(), kPermission, kResourceExhausted.
Status write_cost_tables(const CostTables& tables, const std::string& path);

}  // namespace itif::plan
