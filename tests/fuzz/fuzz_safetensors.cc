// A tenant's .safetensors file: its prefix and header.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif;
  const auto file = std::as_bytes(std::span(data, size));
  if (size < 8) return 0;
  const auto header_bytes =
      model::parse_safetensors_prefix(file.first<8>(), size, "model.safetensors");
  if (!header_bytes) {
    CHECK(!header_bytes.error().message.empty());
    return 0;
  }
  CHECK(*header_bytes <= size - 8);
  const auto entries = model::parse_safetensors_header(
      file.subspan(8, static_cast<size_t>(*header_bytes)), size, "model.safetensors");
  if (!entries) {
    CHECK(!entries.error().message.empty());
    return 0;
  }
  for (const model::TensorEntry& entry : *entries) {
    CHECK(entry.begin <= entry.end);
    CHECK(entry.begin >= 8 + *header_bytes);
    CHECK(entry.end <= size);
    uint64_t elements = 1;
    for (const uint64_t dim : entry.dims) elements *= dim;
    if (entry.dtype) {
      CHECK(elements * dtype_bytes(*entry.dtype) == entry.end - entry.begin);
    }
  }
  return 0;
}
