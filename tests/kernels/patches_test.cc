// Images: from packets to patch embeddings.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fixture.h"

namespace itif::kernels {
namespace {

// Copies of pieces, each at the end of a page that an inaccessible page follows: reading past a
// piece crashes.
class GuardedPieces {
 public:
  ~GuardedPieces() {
    for (const auto& [base, bytes] : mappings_) munmap(base, bytes);
  }
  BytePiece add(std::span<const std::byte> bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t data = (bytes.size() + page - 1) / page * page;
    void* base =
        mmap(nullptr, data + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(base, MAP_FAILED);
    auto* start = static_cast<std::byte*>(base);
    EXPECT_EQ(mprotect(start + data, page, PROT_NONE), 0);
    std::byte* at = start + data - bytes.size();
    std::memcpy(at, bytes.data(), bytes.size());
    mappings_.emplace_back(base, data + page);
    return {at, static_cast<uint32_t>(bytes.size())};
  }

 private:
  std::vector<std::pair<void*, size_t>> mappings_;
};

class PatchesTest : public DeviceTest {
 protected:
  struct Case {
    uint32_t height, width, channels, patch;
    uint8_t value_bytes = 1;
    bool normalized = true;
    size_t max_piece = 1384;
    uint32_t skip = 8;
  };
  void run(const Case& c);
};
ITIF_DEVICE_SUITE(PatchesTest);

void PatchesTest::run(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.height << "x" << c.width << "x" << c.channels << " / "
                                  << c.patch << ", " << int{c.value_bytes} << " bytes a value");
  constexpr uint32_t kImages = 3;
  const uint32_t across = c.width / c.patch, down = c.height / c.patch;
  const size_t k = size_t{c.channels} * c.patch * c.patch;
  const size_t count = size_t{c.height} * c.width * c.channels;
  const uint32_t stride = across * down + 2;  // two more rows, of no patch
  GuardedPieces memory;
  std::vector<std::vector<BytePiece>> pieces(kImages);
  std::vector<std::vector<float>> values(kImages), scale(kImages), shift(kImages);
  std::vector<ImagePixels> images;
  for (uint32_t i = 0; i < kImages; ++i) {
    std::vector<std::byte> bytes(c.skip, std::byte{0xff});
    for (size_t p = 0; p < count; ++p) {
      if (c.value_bytes == 1) {
        const auto value = static_cast<uint8_t>(random_.below(256));
        values[i].push_back(value);
        bytes.push_back(std::byte{value});
      } else {
        values[i].push_back(static_cast<float>(random_.normal()));
        const auto* raw = reinterpret_cast<const std::byte*>(&values[i].back());
        bytes.insert(bytes.end(), raw, raw + 4);
      }
    }
    std::vector<std::pair<size_t, size_t>> cuts;
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = std::min(1 + random_.below(c.max_piece), bytes.size() - at);
      cuts.emplace_back(at, piece);
      at += piece;
    }
    for (const auto& [at, piece] : cuts)
      pieces[i].push_back(memory.add(std::span(bytes).subspan(at, piece)));
    for (uint32_t channel = 0; channel < c.channels; ++channel) {
      scale[i].push_back(static_cast<float>(0.01 + 0.01 * random_.uniform()));
      shift[i].push_back(static_cast<float>(random_.normal()));
    }
    images.push_back({.pieces = pieces[i],
                      .skip_bytes = c.skip,
                      .value_bytes = c.value_bytes,
                      .first_row = 1 + i * stride,
                      .scale = c.normalized ? scale[i].data() : nullptr,
                      .shift = c.normalized ? shift[i].data() : nullptr});
  }
  const size_t rows = kImages * stride + 1;
  std::byte* out = make_output(rows * k, activation());
  const auto before = download_activations(out, rows * k);
  stream_->launch(kernels::GatherPatches{.images = images,
                                         .height = c.height,
                                         .width = c.width,
                                         .channels = c.channels,
                                         .patch = c.patch,
                                         .out = out});
  std::vector<double> expected(before.begin(), before.end());
  for (uint32_t i = 0; i < kImages; ++i)
    for (uint32_t patch = 0; patch < across * down; ++patch)
      for (uint32_t channel = 0; channel < c.channels; ++channel)
        for (uint32_t y = 0; y < c.patch; ++y)
          for (uint32_t x = 0; x < c.patch; ++x) {
            const size_t pixel =
                (size_t{patch / across} * c.patch + y) * c.width + patch % across * c.patch + x;
            double value = values[i][pixel * c.channels + channel];
            if (c.normalized) value = value * scale[i][channel] + shift[i][channel];
            expected[(images[i].first_row + patch) * k + (size_t{channel} * c.patch + y) * c.patch +
                     x] = value;
          }
  expect_close(download_activations(out, rows * k), expected, 1.01 * unit() + 1e-6, "patches");
}

TEST_P(PatchesTest, SizesOfModels) {
  run({.height = 224, .width = 224, .channels = 3, .patch = 16, .max_piece = 2768});
  run({.height = 224, .width = 224, .channels = 3, .patch = 32, .max_piece = 2768});
  run({.height = 56, .width = 84, .channels = 3, .patch = 14});
}
TEST_P(PatchesTest, OddSizesAndPixelsPastTheLastPatch) {
  for (const uint32_t channels : {1u, 2u, 3u, 4u, 13u})
    for (const uint32_t patch : {1u, 5u, 7u, 17u})
      run({.height = 35, .width = 20, .channels = channels, .patch = patch, .max_piece = 200});
}
TEST_P(PatchesTest, FloatsAreNotNormalised) {
  for (const uint32_t channels : {1u, 3u})
    run({.height = 28,
         .width = 21,
         .channels = channels,
         .patch = 7,
         .value_bytes = 4,
         .normalized = false});
}
TEST_P(PatchesTest, PiecesOfAnyLengthAtAnyAddress) {
  run({.height = 9, .width = 9, .channels = 3, .patch = 3, .max_piece = 3, .skip = 8});
  run({.height = 9, .width = 9, .channels = 1, .patch = 3, .value_bytes = 4, .max_piece = 7});
  run({.height = 9, .width = 9, .channels = 3, .patch = 3, .max_piece = 64, .skip = 0});
  run({.height = 36, .width = 36, .channels = 3, .patch = 9, .max_piece = 3, .skip = 5});
}
// Rows of patches that exceed a block's shared memory, so that a block handles a part of one.
TEST_P(PatchesTest, PatchRowsLargerThanSharedMemory) {
  run({.height = 14, .width = 700, .channels = 3, .patch = 7});
  run({.height = 20, .width = 400, .channels = 3, .patch = 10, .value_bytes = 4});
  for (const uint8_t value_bytes : {1, 4})
    run({.height = 16, .width = 1403, .channels = 16, .patch = 8, .value_bytes = value_bytes});
}

TEST_P(PatchesTest, EmbedsEachTenantsClassTokenAndPositions) {
  for (const size_t hidden : {36u, 768u, 5u}) {
    // Segments of five rows. One padding row follows the second, in the second tenant's range.
    const SegmentRows segments[] = {{0, 5}, {5, 5}, {11, 5}, {16, 5}};
    const RowRange ranges[] = {{0, 5, 1}, {5, 11, 0}, {16, 5, 2}};
    constexpr uint32_t kRows = 21;
    std::vector<std::vector<float>> token, position;
    for (int s = 0; s < 3; ++s) {
      token.push_back(random_values(hidden));
      position.push_back(random_activations(5 * hidden));
    }
    const auto x = random_activations(kRows * hidden);
    std::byte* device_x = upload_activations(x);
    stream_->launch(kernels::EmbedPatches{.x = device_x,
                                          .segments = segments,
                                          .ranges = ranges,
                                          .class_token = upload_slab(token, DType::kF32),
                                          .position = upload_slab(position, activation()),
                                          .hidden = static_cast<uint32_t>(hidden)});
    std::vector<double> expected(x.begin(), x.end());
    for (const SegmentRows& segment : segments)
      for (uint32_t i = 0; i < 5; ++i) {
        const uint32_t row = segment.first_row + i;
        const size_t slot = row < 5 ? 1 : row < 16 ? 0 : 2;
        for (size_t h = 0; h < hidden; ++h)
          expected[row * hidden + h] =
              (i == 0 ? double{token[slot][h]} : double{x[row * hidden + h]}) +
              position[slot][i * hidden + h];
      }
    expect_close(download_activations(device_x, kRows * hidden), expected, 1.01 * unit(),
                 "hidden " + std::to_string(hidden));
  }
}

}  // namespace
}  // namespace itif::kernels
