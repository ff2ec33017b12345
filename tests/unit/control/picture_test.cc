// Reads back pictures that libpng and libjpeg wrote, intact and damaged, as payloads.
#include "picture.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include <jpeglib.h>

#include "base/random.h"
#include "temp_dir.h"
#include "wire/payload.h"

namespace itif::ctl {
namespace {

struct Pixels {
  uint32_t height, width, channels;  // 1: grey, 3: RGB, 4: RGBA
  std::vector<uint8_t> values;
};

Pixels waves(uint32_t height, uint32_t width, uint32_t channels) {
  Pixels pixels{height, width, channels, {}};
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t c = 0; c < channels; ++c)
        pixels.values.push_back(static_cast<uint8_t>(40 + 3 * y + 2 * x + 20 * c));
  return pixels;
}

std::string png_of(const Pixels& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = pixels.width;
  image.height = pixels.height;
  image.format = pixels.channels == 1   ? PNG_FORMAT_GRAY
                 : pixels.channels == 3 ? PNG_FORMAT_RGB
                                        : PNG_FORMAT_RGBA;
  png_alloc_size_t bytes = 1 << 20;
  std::string file(bytes, '\0');
  EXPECT_NE(
      png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.values.data(), 0, nullptr),
      0);
  file.resize(bytes);
  return file;
}

std::string jpeg_of(const Pixels& pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &data, &bytes);
  info.image_width = pixels.width;
  info.image_height = pixels.height;
  info.input_components = static_cast<int>(pixels.channels);
  info.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.values.data() +
                                     size_t{info.next_scanline} * pixels.width * pixels.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(data), bytes);
  std::free(data);
  return file;
}

class Picture : public ::testing::Test {
 protected:
  Result<std::vector<std::byte>> read(const std::string& bytes, uint32_t channels = 3) {
    const std::string path = dir_ / "picture";
    std::ofstream(path, std::ios::binary) << bytes;
    return read_picture(path, channels);
  }
  static wire::ImagePrefix prefix_of(const std::vector<std::byte>& payload) {
    wire::ImagePrefix prefix;
    EXPECT_TRUE(wire::parse_image_prefix(wire::PayloadKind::kImageU8, payload,
                                         static_cast<uint32_t>(payload.size()), prefix));
    return prefix;
  }
  static uint8_t value(const std::vector<std::byte>& payload, size_t i) {
    return static_cast<uint8_t>(payload[sizeof(wire::ImagePrefix) + i]);
  }
  control::TempDir dir_;
};

TEST_F(Picture, PngsAreReadExactly) {
  for (const uint32_t channels : {1u, 3u, 4u}) {
    const Pixels pixels = waves(13, 9, channels);
    const auto payload = read(png_of(pixels), channels == 1 ? 1 : 3);
    ASSERT_TRUE(payload) << payload.error().message;
    EXPECT_EQ(prefix_of(*payload).height, 13);
    EXPECT_EQ(prefix_of(*payload).width, 9);
    EXPECT_EQ(prefix_of(*payload).channels, channels == 1 ? 1 : 3);
    const uint32_t kept = std::min(channels, 3u);
    for (size_t pixel = 0; pixel < 13 * 9; ++pixel)
      for (size_t c = 0; c < kept; ++c)
        ASSERT_EQ(value(*payload, pixel * kept + c), pixels.values[pixel * channels + c])
            << channels << " channels, pixel " << pixel;
  }
  // A grey file for a colour model.
  const Pixels grey = waves(5, 5, 1);
  const auto payload = read(png_of(grey), 3);
  ASSERT_TRUE(payload) << payload.error().message;
  EXPECT_EQ(value(*payload, 3 * 7), grey.values[7]);
  EXPECT_EQ(value(*payload, 3 * 7 + 2), grey.values[7]);
}

TEST_F(Picture, JpegsAreReadWithinTolerance) {
  for (const uint32_t channels : {1u, 3u}) {
    const Pixels pixels = waves(24, 31, channels);
    const auto payload = read(jpeg_of(pixels), channels);
    ASSERT_TRUE(payload) << payload.error().message;
    EXPECT_EQ(prefix_of(*payload).width, 31);
    for (size_t i = 0; i < pixels.values.size(); ++i)
      ASSERT_NEAR(value(*payload, i), pixels.values[i], 12) << i;
  }
}

TEST_F(Picture, RefusesFilesThatAreNoPicture) {
  EXPECT_EQ(read("GIF89a").error().code, Code::kUnsupported);
  EXPECT_EQ(read("").error().code, Code::kUnsupported);
  EXPECT_EQ(read_picture(dir_ / "none", 3).error().code, Code::kNotFound);
  const std::string png = png_of(waves(13, 9, 3)), jpeg = jpeg_of(waves(24, 31, 3));
  EXPECT_EQ(read(png.substr(0, png.size() - 30)).error().code, Code::kCorrupt);
  EXPECT_EQ(read(jpeg.substr(0, jpeg.size() / 2)).error().code, Code::kCorrupt);
  EXPECT_EQ(read(jpeg.substr(0, 5)).error().code, Code::kCorrupt);
  const auto huge = read(png_of(waves(1, 70000, 3)));
  EXPECT_EQ(huge.error().code, Code::kResourceExhausted);
  EXPECT_NE(huge.error().message.find("1x70000 pixels"), std::string::npos) << huge.error().message;
}

TEST_F(Picture, DamagedFilesGiveErrorsOrPictures) {
  Random random(3);
  for (const std::string& whole : {png_of(waves(13, 9, 3)), jpeg_of(waves(24, 31, 3))}) {
    for (int i = 0; i < 40; ++i) {
      std::string bytes = whole;
      for (uint64_t flips = 1 + random.below(4); flips > 0; --flips)
        bytes[4 + random.below(bytes.size() - 4)] = static_cast<char>(random.below(256));
      if (const auto payload = read(bytes)) prefix_of(*payload);
    }
  }
}

}  // namespace
}  // namespace itif::ctl
