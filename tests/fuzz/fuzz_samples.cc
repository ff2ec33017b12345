// A line of a model's itif-samples.jsonl.
//
//   input = the line
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::model;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto sample = parse_sample(line, "/no/such/directory", "line 1");
  if (!sample) {
    CHECK(!sample.error().message.empty());
    return 0;
  }
  CHECK(sample->origin.starts_with("line 1") && !sample->result_kind.empty());
  CHECK(sample->payload_kind == "text" || sample->payload_kind == "tokens_u32");
  if (sample->payload_kind == "tokens_u32")
    CHECK(!sample->payload.empty() && sample->payload.size() % 4 == 0);
  if (const auto* expected = std::get_if<ExpectedValues>(&sample->expected)) {
    CHECK(!expected->values.empty() && expected->tolerance >= 0);
    for (const float value : expected->values) CHECK(std::isfinite(value));
  }
  return 0;
}
