// SipHash-2-4 with a 128-bit output of several inputs at once, each with its own key and length: a
// lane of a vector register per input. siphash.h hashes one.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace itif::wire {

struct SipHashInput {
  const std::array<std::byte, 16>* key = nullptr;
  // The input is head ‖ tail.
  std::span<const std::byte> head;
  std::span<const std::byte> tail;
};

using SipHashes = std::span<std::array<std::byte, 16>>;

// Writes siphash128() of each input to `out`, eight together with AVX-512, four with AVX2, else one
// after the other. Fastest for neighbours of equal length. REQUIRES: out.size() ≥ inputs.size().
void siphash128_many(std::span<const SipHashInput> inputs, SipHashes out) noexcept;

// The same with the instructions of one kind, for tests and benches.
enum class SipHashKind { kOneByOne, kAvx2, kAvx512 };
// Returns false for instructions that this CPU lacks.
bool siphash_supported(SipHashKind kind) noexcept;
// REQUIRES: siphash_supported(kind).
void siphash128_many(SipHashKind kind, std::span<const SipHashInput> inputs,
                     SipHashes out) noexcept;

}  // namespace itif::wire
