// The gathers against packets of every kind: any number of pieces of any length, in any order of
// memory, at any payload address, registered with the GPU or not. The result must match the host's
// bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "device/cuda/device.h"

namespace itif::device {
namespace {

constexpr uint32_t kTurns = 60;
constexpr uint32_t kMaxRows = 2048;

// Memory that holds packets. Half of it is registered with the GPU.
class Packets {
 public:
  explicit Packets(Random& random) : random_(random), memory_(kBytes) {
    // No four of these bytes form a NaN, whose bits may change.
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random.below(127));
  }
  // Returns room for a piece at a multiple of `alignment`, apart from the others.
  std::byte* take(size_t bytes, size_t alignment) {
    const size_t block = next_++ * kStride % kBytes;
    return memory_.data() + block + random_.below((kStride - bytes) / alignment) * alignment;
  }
  std::span<const std::byte> of_gpu() const { return std::span(memory_).first(kBytes / 2); }
  void clear() { next_ = random_.below(kBytes / kStride); }

 private:
  static constexpr size_t kStride = 10240, kBytes = 1024 * kStride;
  Random& random_;
  std::vector<std::byte> memory_;
  size_t next_ = 0;
};

class Gather : public ::testing::TestWithParam<uint64_t> {
 protected:
  struct Side {
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Buffer> out;
  };
  Gather() {
    gpu_.device = open_cuda_device({.kind = "cuda", .dtype = "f32"}).value();
    EXPECT_TRUE(
        gpu_.device->register_host_memory(packets_.of_gpu().data(), packets_.of_gpu().size()));
    host_.device = open_device({.kind = "host", .dtype = "f32", .num_threads = 1}).value();
    for (Side* side : {&gpu_, &host_}) {
      side->stream =
          side->device->make_stream({.max_tokens = kMaxRows, .max_segments = 4096}).value();
      side->out = side->device->allocate(kOutBytes).value();
    }
  }
  // Expects launch(stream, out) to write the same on both devices.
  template <class Launch>
  void expect_same(const Launch& launch) {
    std::vector<std::byte> got[2];
    for (const Side* side : {&gpu_, &host_}) {
      std::vector<std::byte>& bytes = got[side == &host_];
      bytes.resize(kOutBytes);
      launch(*side->stream, side->out->data());
      side->stream->copy_to_host(side->out->data(), kOutBytes, bytes.data());
      const Status done = side->stream->synchronize();
      ASSERT_TRUE(done) << done.error().message;
    }
    const auto [gpu, host] = std::ranges::mismatch(got[0], got[1]);
    EXPECT_TRUE(gpu == got[0].end()) << "from byte " << gpu - got[0].begin() << " on";
  }

  // Returns the largest payload of a packet; some are jumbo frames.
  uint32_t payload() { return random_.below(8) == 0 ? 8900 : 1384; }

  static constexpr size_t kOutBytes = size_t{kMaxRows} * 3 * 16 * sizeof(float);
  Random random_{GetParam()};
  Packets packets_{random_};  // must outlive the device that it is registered with
  Side gpu_, host_;
};

TEST_P(Gather, Ids) {
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    SCOPED_TRACE(turn);
    packets_.clear();
    std::vector<kernels::IdPiece> pieces;
    for (uint32_t row = 0; row < kMaxRows && pieces.size() < 512;) {
      const uint8_t id_bytes = random_.below(2) == 0 ? 2 : 4;
      const auto most = std::min<uint64_t>(payload() / id_bytes, kMaxRows - row);
      const auto ids = static_cast<uint32_t>(random_.below(most + 1));
      pieces.push_back({packets_.take(size_t{ids} * id_bytes, 4), ids, row, id_bytes});
      row += ids + static_cast<uint32_t>(random_.below(3));
    }
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random_.below(i)]);
    const auto vocab = static_cast<uint32_t>(1 + random_.below(40000));
    expect_same([&](Stream& stream, std::byte* out) {
      stream.launch(kernels::GatherIds{
          .pieces = pieces, .ids = reinterpret_cast<int32_t*>(out), .vocab_size = vocab});
    });
  }
}

TEST_P(Gather, Pixels) {
  constexpr float kScale[] = {0.017f, 0.018f, -2.5f}, kShift[] = {-2.1f, 0.5f, 3.0f};
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    packets_.clear();
    const auto patch = static_cast<uint32_t>(1 + random_.below(4));
    const auto side = static_cast<uint32_t>(patch + random_.below(24));
    const uint32_t channels = random_.below(2) == 0 ? 1 : 3;
    const uint8_t value_bytes = random_.below(2) == 0 ? 1 : 4;
    const uint32_t patches = side / patch * (side / patch);
    const auto count = static_cast<uint32_t>(1 + random_.below(3));
    SCOPED_TRACE(::testing::Message()
                 << "turn " << turn << ": " << count << " of " << side << " x " << side << " x "
                 << channels << " / " << patch << ", " << int{value_bytes} << " bytes a value");
    std::vector<std::vector<BytePiece>> pieces(count);
    std::vector<kernels::ImagePixels> images;
    for (uint32_t i = 0; i < count && (i + 1) * patches <= kMaxRows / 2; ++i) {
      const bool is_scaled = random_.below(4) > 0;
      const auto skip = static_cast<uint32_t>(4 * random_.below(4));
      const uint32_t bytes = skip + side * side * channels * value_bytes;
      for (uint32_t at = 0; at < bytes;) {
        // f32 values may be split across pieces, too.
        const auto piece = static_cast<uint32_t>(std::min<uint64_t>(
            1 + random_.below(random_.below(3) == 0 ? 20 : payload()), bytes - at));
        pieces[i].push_back({packets_.take(piece, 1), piece});
        at += piece;
      }
      images.push_back({.pieces = pieces[i],
                        .skip_bytes = skip,
                        .value_bytes = value_bytes,
                        .first_row = i * patches,
                        .scale = is_scaled ? kScale : nullptr,
                        .shift = is_scaled ? kShift : nullptr});
    }
    expect_same([&](Stream& stream, std::byte* out) {
      stream.launch(kernels::GatherPatches{.images = images,
                                           .height = side,
                                           .width = side,
                                           .channels = channels,
                                           .patch = patch,
                                           .out = out});
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Gather, ::testing::Range(uint64_t{1}, uint64_t{4}));

}  // namespace
}  // namespace itif::device
