// Sample inputs of a model and the results that it must give for them: the file itif-samples.jsonl
// of its directory. docs/models.md describes the format. An appliance checks a new version of a
// tenant's model with them before the version answers requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace itif::model {

inline constexpr const char* kSamplesFile = "itif-samples.jsonl";
inline constexpr size_t kMaxSamples = 64;
inline constexpr double kDefaultTolerance = 0.05;

struct ExpectedValues {  // f32 results: row by row
  std::vector<float> values;
  double tolerance = kDefaultTolerance;  // largest |got - expected|
};
struct ExpectedLabel {  // of classes: the name of the best class
  std::string label;
};
struct ExpectedTokens {  // generated ids
  std::vector<uint32_t> ids;
};
struct ExpectedText {  // generated text
  std::string text;
};

struct Sample {
  std::string origin;        // "/models/x/itif-samples.jsonl:3 (greeting)", for errors
  std::string payload_kind;  // as on the wire: "text", "tokens_u32", "image_u8", "image_f32"
  std::vector<std::byte> payload;
  bool truncate = false;
  std::string result_kind = "default";  // as on the wire
  std::variant<ExpectedValues, ExpectedLabel, ExpectedTokens, ExpectedText> expected;
};

// Returns the samples of a directory; empty: it has no such file. Errors: kCorrupt (not JSON
// lines), kInvalidArgument (a key is unknown, missing or has a wrong value; too many samples),
// kNotFound (an image's file), kPermission. All name file and line.
Result<std::vector<Sample>> read_samples(const std::string& directory);
// Reads one line; `origin` names it. Errors: as above.
Result<Sample> parse_sample(std::string_view line, const std::string& directory,
                            const std::string& origin);

}  // namespace itif::model
