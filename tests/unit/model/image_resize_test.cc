// Resized pictures compared with Pillow's, bit for bit (tests/reference/make_resize_goldens.py).
#include "model/image_resize.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace itif::model {
namespace {

std::vector<std::byte> picture(uint64_t state, size_t count, bool edges) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(edges ? 255 * (state >> 63) : state >> 56);
  }
  return bytes;
}

std::string fnv(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

TEST(PictureResizer, EqualsPillowBitForBit) {
  std::ifstream file(ITIF_TEST_DATA "/resize/cases.json");
  const nlohmann::json cases = nlohmann::json::parse(file)["cases"];
  ASSERT_GT(cases.size(), 50u);
  // Shared by all cases: no state of one picture may affect the next.
  PictureResizer resizer;
  for (const auto& one : cases) {
    const PictureSize from{one["from"][0], one["from"][1], one["channels"]};
    const PictureSize to{one["to"][0], one["to"][1], one["channels"]};
    const auto in = picture(one["seed"], from.bytes(), one["pattern"] == "edges");
    std::vector<std::byte> out(to.bytes());
    resizer.resize(in, from, static_cast<ResizeFilter>(one["filter"].get<int>()), to, out);
    EXPECT_EQ(fnv(out), one["fnv"].get<std::string>()) << one;
  }
}

}  // namespace
}  // namespace itif::model
