// Overwrites secrets before their memory is freed, so that they show in no later allocation, core
// dump or swap file.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace itif {

// Fills the bytes with zeros. Unlike a memset, the compiler does not leave it out.
inline void wipe(std::span<std::byte> bytes) noexcept {
  if (!bytes.empty()) ::explicit_bzero(bytes.data(), bytes.size());
}

}  // namespace itif
