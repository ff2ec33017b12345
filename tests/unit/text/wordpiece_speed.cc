// Measures the tokenizer's speed in MB/s and tokens/s. Not a test: it never passes or fails.
//   wordpiece_speed MODEL_DIRECTORY TEXT_FILE [SECONDS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "text/load_tokenizer.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: wordpiece_speed MODEL_DIRECTORY TEXT_FILE [SECONDS]\n");
    return 2;
  }
  const auto tokenizer = itif::text::load_tokenizer(argv[1]);
  if (!tokenizer) {
    fmt::print(stderr, "wordpiece_speed: {}\n", tokenizer.error().message);
    return 1;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const double seconds = argc > 3 ? std::atof(argv[3]) : 2;
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  ids.reserve(text.size() + 2);
  types.reserve(text.size() + 2);
  const itif::SystemClock clock;
  const uint64_t start_ns = clock.now_ns();
  uint64_t best_ns = UINT64_MAX;
  uint64_t runs = 0;
  for (; clock.now_ns() - start_ns < seconds * 1e9; ++runs) {
    ids.clear();
    types.clear();
    const uint64_t before_ns = clock.now_ns();
    if ((*tokenizer)->encode(text, {}, {}, ids, types) != itif::text::EncodeStatus::kOk) {
      fmt::print(stderr, "wordpiece_speed: {} is not UTF-8\n", argv[2]);
      return 1;
    }
    best_ns = std::min(best_ns, clock.now_ns() - before_ns);
  }
  if (runs == 0) return 1;
  const double best_seconds = static_cast<double>(best_ns) / 1e9;
  fmt::print("{} bytes, {} tokens, best of {} runs: {:.1f} MB/s, {:.1f} million tokens/s\n",
             text.size(), ids.size(), runs, static_cast<double>(text.size()) / 1e6 / best_seconds,
             static_cast<double>(ids.size()) / 1e6 / best_seconds);
  return 0;
}
