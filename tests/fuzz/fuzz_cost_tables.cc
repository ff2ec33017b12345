// A file of cost tables, possibly damaged by a disk or written by anyone with access to the folder.
// The input is the text before the checksum line, so that inputs are not stopped by a wrong
// checksum.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "plan/cost_file.h"
#include "plan/cost_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::plan;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  uint64_t checksum = 0xcbf29ce484222325;
  for (const char c : body) checksum = (checksum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  (void)parse_cost_tables(body);
  const auto tables = parse_cost_tables(fmt::format("{}end {:016x}\n", body, checksum));
  if (!tables) {
    CHECK(!tables.error().message.empty());
    return 0;
  }
  CHECK(validate(*tables).has_value());
  CHECK(*parse_cost_tables(format_cost_tables(*tables)) == *tables);
  if (!tables->serve_planners()) return 0;
  CostTables monotone = *tables;
  make_monotone(monotone);
  CHECK(validate(monotone).has_value());
  const CostModel model(monotone, 64);
  for (const uint32_t length : {1u, 7u, 300u}) {
    CHECK(model.gemm(length)[1] > 0 && std::isfinite(model.gemm(length)[64]));
    if (model.has_batched_gemm()) CHECK(model.batched_gemm(length, 2)[3] > 0);
  }
  return 0;
}
