// Valid and invalid safetensors files as strings.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace itif::testing {

// Returns a file of this header and data. `claimed` replaces the header's true length.
inline std::string safetensors(const std::string& header, const std::string& data,
                               int64_t claimed = -1) {
  uint64_t length = claimed < 0 ? header.size() : static_cast<uint64_t>(claimed);
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + header + data;
}

// Returns one tensor's entry: "name":{"dtype":…}.
inline std::string entry(const std::string& name, const std::string& dtype,
                         const std::string& shape, uint64_t begin, uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

inline std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace itif::testing
