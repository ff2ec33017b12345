// SHA-256 of the pieces of some bytes, several at once in lanes of vector registers (libipsec-mb):
// some 5 GB/s with AVX-512, where libsodium's BLAKE2b of the whole has 0.7.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace itif::model {

using Sha256 = std::array<std::byte, 32>;
inline constexpr size_t kSha256PieceBytes = 4096;  // the last piece may be shorter

// Returns the pieces' hashes in their order; none of no bytes. Any thread: the first call in a
// thread allocates libipsec-mb's state.
std::vector<Sha256> sha256_pieces(std::span<const std::byte> bytes);

}  // namespace itif::model
