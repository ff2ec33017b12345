#include "wire/siphash_many.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "wire/siphash.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace itif::wire {
namespace {

constexpr size_t kBlockWords = 8;
constexpr size_t kBlockBytes = 8 * kBlockWords;

// Returns the number of the input's words, including the last one, which holds the length.
size_t num_words(const SipHashInput& input) noexcept {
  return (input.head.size() + input.tail.size()) / 8 + 1;
}

// Copies at most 64 bytes: both ends of a power of two, which may overlap. Faster than a call of
// memcpy. Inline, as its caller: code for SSE, called between instructions of AVX, is slow.
[[gnu::always_inline]] inline void copy_short(std::byte* to, const std::byte* from,
                                              size_t bytes) noexcept {
  const auto both_ends = [&](auto size) {
    std::memcpy(to, from, size());
    std::memcpy(to + bytes - size(), from + bytes - size(), size());
  };
  if (bytes >= 32) return both_ends(std::integral_constant<size_t, 32>());
  if (bytes >= 16) return both_ends(std::integral_constant<size_t, 16>());
  if (bytes >= 8) return both_ends(std::integral_constant<size_t, 8>());
  if (bytes >= 4) return both_ends(std::integral_constant<size_t, 4>());
  if (bytes >= 2) return both_ends(std::integral_constant<size_t, 2>());
  if (bytes == 1) *to = *from;
}

// Copies the part of `from`, which begins at byte `at` of the input, that is in the block at
// `block_at`.
[[gnu::always_inline]] inline void copy_part(std::span<const std::byte> from, size_t at,
                                             size_t block_at, std::byte* block) noexcept {
  const size_t begin = std::max(at, block_at);
  const size_t end = std::min(at + from.size(), block_at + kBlockBytes);
  if (begin < end) copy_short(block + (begin - block_at), from.data() + (begin - at), end - begin);
}

// Returns eight words of an input, from byte `block_at` on: in place if all are bytes of the head,
// or all of the tail, else in `scratch`. Bytes after the last word are 0.
const std::byte* block_of(const SipHashInput& input, size_t block_at, std::byte* scratch) noexcept {
  const size_t head = input.head.size(), total = head + input.tail.size();
  if (block_at + kBlockBytes <= head) return input.head.data() + block_at;
  if (block_at >= head && block_at + kBlockBytes <= total)
    return input.tail.data() + (block_at - head);
  std::memset(scratch, 0, kBlockBytes);
  copy_part(input.head, 0, block_at, scratch);
  copy_part(input.tail, head, block_at, scratch);
  const size_t length_at = total / 8 * 8 + 7;  // the last word's highest byte
  if (length_at - block_at < kBlockBytes)
    scratch[length_at - block_at] = static_cast<std::byte>(total);
  return scratch;
}

void hash_one_by_one(std::span<const SipHashInput> inputs, SipHashes out) noexcept {
  for (size_t i = 0; i < inputs.size(); ++i)
    out[i] = siphash128(*inputs[i].key, inputs[i].head, inputs[i].tail);
}

#ifdef __x86_64__

#define ITIF_LANES 4
#define ITIF_TARGET __attribute__((target("avx2")))
namespace avx2 {
#include "wire/siphash_many-inl.h"
}
#undef ITIF_LANES
#undef ITIF_TARGET

#define ITIF_LANES 8
#define ITIF_TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,bmi2")))
namespace avx512 {
#include "wire/siphash_many-inl.h"
}
#undef ITIF_LANES
#undef ITIF_TARGET

#endif

using Hash = void (*)(std::span<const SipHashInput>, SipHashes) noexcept;

Hash hash_of(SipHashKind kind) noexcept {
#ifdef __x86_64__
  if (kind == SipHashKind::kAvx512) return avx512::hash_all;
  if (kind == SipHashKind::kAvx2) return avx2::hash_all;
#endif
  return hash_one_by_one;
}

Hash best_hash() noexcept {
  for (const SipHashKind kind : {SipHashKind::kAvx512, SipHashKind::kAvx2})
    if (siphash_supported(kind)) return hash_of(kind);
  return hash_one_by_one;
}

}  // namespace

bool siphash_supported(SipHashKind kind) noexcept {
  switch (kind) {
    case SipHashKind::kOneByOne: return true;
#ifdef __x86_64__
    case SipHashKind::kAvx2: return __builtin_cpu_supports("avx2");
    case SipHashKind::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("bmi2");
#endif
    default: return false;
  }
}

void siphash128_many(SipHashKind kind, std::span<const SipHashInput> inputs,
                     SipHashes out) noexcept {
  hash_of(kind)(inputs, out);
}

void siphash128_many(std::span<const SipHashInput> inputs, SipHashes out) noexcept {
  static const Hash hash = best_hash();
  hash(inputs, out);
}

}  // namespace itif::wire
