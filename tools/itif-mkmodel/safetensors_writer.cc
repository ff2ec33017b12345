#include "safetensors_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

namespace itif::mkmodel {
namespace {

const char* dtype_text(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}

uint64_t elements(const TensorToWrite& tensor) {
  uint64_t product = 1;
  for (uint64_t dim : tensor.dims) product *= dim;
  return product;
}

void append(std::vector<std::byte>& buffer, float value, DType type) {
  const size_t at = buffer.size();
  buffer.resize(at + dtype_bytes(type));
  if (type == DType::kF32) {
    std::memcpy(&buffer[at], &value, 4);
  } else {
    const uint16_t half = type == DType::kBF16
                              ? f32_to_bf16(value)
                              : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    std::memcpy(&buffer[at], &half, 2);
  }
}

}  // namespace

Status write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                         DType type) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t end = offset + elements(tensor) * dtype_bytes(type);
    header[tensor.name] = {
        {"dtype", dtype_text(type)}, {"shape", tensor.dims}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts 8-byte aligned, as the format advises

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                             std::fclose);
  const auto failed = [&] {
    const Code code = errno == ENOSPC ? Code::kResourceExhausted : Code::kPermission;
    return fail(code, fmt::format("{}: {}", path, errno_text(errno)));
  };
  if (!file) return failed();
  uint64_t header_bytes = text.size();
  if (std::fwrite(&header_bytes, 8, 1, file.get()) != 1 ||
      std::fwrite(text.data(), 1, text.size(), file.get()) != text.size())
    return failed();
  constexpr size_t kChunkBytes = 1 << 20;
  std::vector<std::byte> buffer;
  buffer.reserve(kChunkBytes + sizeof(float));
  const auto flush = [&] {
    const bool ok = std::fwrite(buffer.data(), 1, buffer.size(), file.get()) == buffer.size();
    buffer.clear();
    return ok;
  };
  for (const TensorToWrite& tensor : tensors) {
    for (uint64_t i = elements(tensor); i; --i) {
      append(buffer, tensor.next(), type);
      if (buffer.size() >= kChunkBytes && !flush()) return failed();
    }
  }
  if (!flush() || std::fflush(file.get()) != 0) return failed();
  return {};
}

}  // namespace itif::mkmodel
