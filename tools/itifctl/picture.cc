#include "picture.h"

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstring>
#include <memory>

#include <jerror.h>
#include <jpeglib.h>

#include "control/file.h"
#include "wire/payload.h"

namespace itif::ctl {
namespace {

constexpr size_t kMaxFileBytes = 64u << 20;
constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};

template <size_t N>
bool begins_with(const std::string& bytes, const unsigned char (&magic)[N]) {
  return bytes.size() >= N && std::memcmp(bytes.data(), magic, N) == 0;
}

// Returns the prefix followed by space for the pixels.
Result<std::vector<std::byte>> payload_for(const std::string& path, uint64_t height, uint64_t width,
                                           uint32_t channels) {
  wire::ImagePrefix prefix;
  if (height <= UINT16_MAX && width <= UINT16_MAX)
    prefix = {.height = static_cast<uint16_t>(height),
              .width = static_cast<uint16_t>(width),
              .channels = static_cast<uint16_t>(channels)};
  const uint32_t bytes = wire::image_payload_bytes(wire::PayloadKind::kImageU8, prefix);
  if (bytes == 0)
    return fail(
        Code::kResourceExhausted,
        fmt::format("{}: {}x{} pixels do not fit in a request of 16 MiB", path, height, width));
  std::vector<std::byte> payload(bytes);
  std::memcpy(payload.data(), &prefix, sizeof prefix);
  return payload;
}

Result<std::vector<std::byte>> read_png(const std::string& path, const std::string& bytes,
                                        uint32_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> guard(&image, png_image_free);
  const auto corrupt = [&] {
    return fail(Code::kCorrupt, fmt::format("{}: {}", path, image.message));
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) return corrupt();
  ITIF_ASSIGN(std::vector<std::byte> payload,
              payload_for(path, image.height, image.width, channels));
  // Reads alpha, too, and drops it below: without it libpng would blend with a background.
  image.format = channels == 1 ? PNG_FORMAT_GA : PNG_FORMAT_RGBA;
  std::vector<png_byte> pixels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) return corrupt();
  std::byte* out = payload.data() + sizeof(wire::ImagePrefix);
  for (size_t at = 0; at < pixels.size(); at += channels + 1)
    for (uint32_t c = 0; c < channels; ++c) *out++ = std::byte{pixels[at + c]};
  return payload;
}

// libjpeg's error callbacks. on_error() must not return.
struct JpegErrors {
  jpeg_error_mgr manager;  // must be first: on_error() casts it to JpegErrors
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];

  static void on_error(j_common_ptr info) {
    auto* self = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, self->message);
    std::longjmp(self->escape, 1);
  }
  // Ignores warnings, which libjpeg repairs, except a file that ends early.
  static void on_message(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) on_error(info);
  }
};

// Holds only plain data, because longjmp skips destructors. `open` allocates the payload. Returns
// false on an error.
template <class Open>
bool decode_jpeg(const std::string& bytes, uint32_t channels, JpegErrors& errors,
                 const Open& open) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = JpegErrors::on_error;
  errors.manager.emit_message = JpegErrors::on_message;
  if (setjmp(errors.escape) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  std::byte* out = open(info.image_height, info.image_width);
  if (out == nullptr) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = reinterpret_cast<JSAMPROW>(out) +
                   size_t{info.output_scanline} * info.output_width * channels;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

Result<std::vector<std::byte>> read_jpeg(const std::string& path, const std::string& bytes,
                                         uint32_t channels) {
  JpegErrors errors{};
  Result<std::vector<std::byte>> payload = std::vector<std::byte>();
  const auto open = [&](uint32_t height, uint32_t width) -> std::byte* {
    payload = payload_for(path, height, width, channels);
    return payload ? payload->data() + sizeof(wire::ImagePrefix) : nullptr;
  };
  if (decode_jpeg(bytes, channels, errors, open) || !payload) return payload;
  return fail(Code::kCorrupt, fmt::format("{}: {}", path, errors.message));
}

}  // namespace

Result<std::vector<std::byte>> read_picture(const std::string& path, uint32_t channels) {
  ITIF_ASSIGN(const std::string bytes, control::read_file(path, kMaxFileBytes));
  if (begins_with(bytes, kPng)) return read_png(path, bytes, channels);
  if (begins_with(bytes, kJpeg)) return read_jpeg(path, bytes, channels);
  return fail(Code::kUnsupported, fmt::format("{}: neither a PNG nor a JPEG file", path));
}

}  // namespace itif::ctl
