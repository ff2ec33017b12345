// SipHash of several inputs in the lanes of vector registers. siphash_many.cc includes this file
// once per width of vectors, each in a namespace of its own: ITIF_LANES 64-bit lanes, compiled for
// ITIF_TARGET. No include guard, no includes.

using Lanes = uint64_t __attribute__((vector_size(8 * ITIF_LANES)));
struct State {
  Lanes v0, v1, v2, v3;
};

#define ITIF_INLINE ITIF_TARGET __attribute__((always_inline)) inline

template <int bits>
ITIF_INLINE Lanes rotate(Lanes x) noexcept {
  return x << bits | x >> (64 - bits);
}

ITIF_INLINE void sip_round(State& s) noexcept {
  s.v0 += s.v1;
  s.v2 += s.v3;
  s.v1 = rotate<13>(s.v1) ^ s.v0;
  s.v3 = rotate<16>(s.v3) ^ s.v2;
  s.v0 = rotate<32>(s.v0);
  s.v2 += s.v1;
  s.v0 += s.v3;
  s.v1 = rotate<17>(s.v1) ^ s.v2;
  s.v3 = rotate<21>(s.v3) ^ s.v0;
  s.v2 = rotate<32>(s.v2);
}

ITIF_INLINE Lanes load_lanes(const std::byte* from) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

ITIF_INLINE void add_word(State& s, Lanes word) noexcept {
  s.v3 ^= word;
  sip_round(s);
  sip_round(s);
  s.v0 ^= word;
}

// load_words() transposes: words[w][lane] is word done + w of the lane's input. It is unrolled, so
// that no array is in memory.
#if ITIF_LANES == 8

// Returns the bits of the bytes from `begin` to `end` in the block at `at`.
ITIF_INLINE __mmask64 bytes_in_block(size_t at, size_t begin, size_t end) noexcept {
  const auto below = [&](size_t position) ITIF_TARGET {
    return _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(
                                       std::min(position - std::min(position, at), kBlockBytes)));
  };
  return below(end) & ~below(begin);
}

// As block_of(), in a register.
ITIF_INLINE Lanes row_of(const SipHashInput& input, size_t at) noexcept {
  const size_t head = input.head.size(), total = head + input.tail.size();
  if (at >= head && at + kBlockBytes <= total) return load_lanes(input.tail.data() + (at - head));
  __m512i row = _mm512_setzero_si512();
  // A load of no bytes may be slow if its address is not mapped.
  if (const __mmask64 bytes = bytes_in_block(at, 0, head); bytes != 0)
    row = _mm512_maskz_loadu_epi8(bytes, input.head.data() + at);
  if (const __mmask64 bytes = bytes_in_block(at, head, total); bytes != 0)
    row = _mm512_or_si512(row, _mm512_maskz_loadu_epi8(bytes, input.tail.data() + at - head));
  if (const size_t last = total / 8 - at / 8; last < kBlockWords)
    row = _mm512_or_si512(row, _mm512_maskz_set1_epi64(static_cast<__mmask8>(1u << last),
                                                       static_cast<long long>(total << 56)));
  return reinterpret_cast<Lanes>(row);
}

struct Rows {};  // the rows are in registers

ITIF_INLINE void load_words(const SipHashInput* const* inputs, size_t done, Rows&,
                            Lanes* words) noexcept {
  Lanes r[8], a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = row_of(*inputs[i], 8 * done);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 8
    for (int j = i; j < i + 2; ++j) {
      b[j] = __builtin_shufflevector(a[j], a[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[j + 2] = __builtin_shufflevector(a[j], a[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 8
  for (int j = 0; j < 4; ++j) {
    words[j] = __builtin_shufflevector(b[j], b[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    words[j + 4] = __builtin_shufflevector(b[j], b[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
#else

// The inputs' present blocks, each of which takes two calls of load_words().
struct Rows {
  alignas(64) std::byte scratch[4][kBlockBytes];
  const std::byte* at[4];
};

ITIF_INLINE void load_words(const SipHashInput* const* inputs, size_t done, Rows& rows,
                            Lanes* words) noexcept {
  const size_t first = done % kBlockWords;
  if (first == 0)
    for (int i = 0; i < 4; ++i) rows.at[i] = block_of(*inputs[i], 8 * done, rows.scratch[i]);
  Lanes r[4], a[4];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) r[i] = load_lanes(rows.at[i] + 8 * first);
#pragma GCC unroll 8
  for (int i = 0; i < 4; i += 2) {
    a[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 4, 2, 6);
    a[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 5, 3, 7);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 2; ++j) {
    words[j] = __builtin_shufflevector(a[j], a[j + 2], 0, 1, 4, 5);
    words[j + 2] = __builtin_shufflevector(a[j], a[j + 2], 2, 3, 6, 7);
  }
}
#endif

// Hashes ITIF_LANES inputs; the first `count` results are wanted.
ITIF_TARGET inline void hash_lanes(const SipHashInput* const* inputs, size_t count,
                                   std::array<std::byte, 16>* out) noexcept {
  Lanes k0, k1, words_of;
  size_t least = SIZE_MAX, most = 0;
  for (int lane = 0; lane < ITIF_LANES; ++lane) {
    const SipHashInput& input = *inputs[lane];
    k0[lane] = load_word(input.key->data());
    k1[lane] = load_word(input.key->data() + 8);
    const size_t words = num_words(input);
    words_of[lane] = words;
    least = std::min(least, words);
    most = std::max(most, words);
  }
  State s{k0 ^ 0x736f6d6570736575u, k1 ^ (0x646f72616e646f6du ^ 0xee), k0 ^ 0x6c7967656e657261u,
          k1 ^ 0x7465646279746573u};
  Rows rows;
  for (size_t done = 0; done < most; done += ITIF_LANES) {
    Lanes words[ITIF_LANES];
    load_words(inputs, done, rows, words);
    if (done + ITIF_LANES <= least) {
#pragma GCC unroll 8
      for (const Lanes& word : words) add_word(s, word);
      continue;
    }
    const size_t end = std::min<size_t>(ITIF_LANES, most - done);
    for (size_t i = 0; i < end; ++i) {
      const State before = s;
      add_word(s, words[i]);
      if (done + i < least) continue;
      const auto ended = words_of <= Lanes{} + (done + i);  // these lanes keep their state
      s.v0 = ended ? before.v0 : s.v0;
      s.v1 = ended ? before.v1 : s.v1;
      s.v2 = ended ? before.v2 : s.v2;
      s.v3 = ended ? before.v3 : s.v3;
    }
  }
  s.v2 ^= 0xee;
  for (int i = 0; i < 4; ++i) sip_round(s);
  const Lanes low = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  s.v1 ^= 0xdd;
  for (int i = 0; i < 4; ++i) sip_round(s);
  const Lanes high = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t both[2] = {low[i], high[i]};
    std::memcpy(out[i].data(), both, sizeof both);
  }
}

ITIF_TARGET inline void hash_all(std::span<const SipHashInput> inputs, SipHashes out) noexcept {
  for (size_t at = 0; at < inputs.size(); at += ITIF_LANES) {
    const size_t count = std::min<size_t>(ITIF_LANES, inputs.size() - at);
    if (count == 1) return hash_one_by_one(inputs.subspan(at), out.subspan(at));
    const SipHashInput* lanes[ITIF_LANES];
    // Lanes without an input repeat the first.
    for (size_t i = 0; i < ITIF_LANES; ++i) lanes[i] = &inputs[i < count ? at + i : at];
    hash_lanes(lanes, count, &out[at]);
  }
}

#undef ITIF_INLINE
