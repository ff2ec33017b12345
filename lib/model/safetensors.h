// Parses the safetensors header: which tensors a file holds and where. Pure: bytes in, entries out.
//
//   file   = u64 header_bytes (little-endian), header, data
//   header = JSON object: name → {"dtype", "shape", "data_offsets": [begin, end] in data},
//            "__metadata__" → object of strings
//
// The entries returned cover data without gap or overlap, and each is exactly as long as its dtype
// and shape say, as in the reference implementation.
// Source: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"

namespace itif::model {

constexpr uint64_t kMaxSafetensorsHeaderBytes = 16u << 20;

struct TensorEntry {
  std::string name;
  std::string dtype_text;      // as in the file: "BF16"
  std::optional<DType> dtype;  // empty: a type that we never compute with ("F8_E4M3")
  std::vector<uint64_t> dims;
  uint64_t begin = 0, end = 0;  // bytes from the start of the file
};

// "[30522, 768]"
std::string shape_text(std::span<const uint64_t> dims);

// Returns the length of the header from the first eight bytes. Errors: kCorrupt (longer than the
// file or than kMaxSafetensorsHeaderBytes).
Result<uint64_t> parse_safetensors_prefix(std::span<const std::byte, 8> prefix, uint64_t file_bytes,
                                          const std::string& file);

// Parses the header, which follows the prefix, into entries in file order. `file` names the file in
// errors. Errors: kCorrupt, with file, tensor, expected and found.
Result<std::vector<TensorEntry>> parse_safetensors_header(std::span<const std::byte> header,
                                                          uint64_t file_bytes,
                                                          const std::string& file);

}  // namespace itif::model
