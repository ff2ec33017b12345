// The operators of decoders: embedding with positions, the K/V cache, attention over it, the best
// tokens.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class DecodeTest : public DeviceTest {
 protected:
  std::byte* upload_bits(std::span<const int32_t> values) {
    std::vector<float> bits;
    for (const int32_t value : values) bits.push_back(std::bit_cast<float>(value));
    return upload(bits, DType::kF32);
  }
};
ITIF_DEVICE_SUITE(DecodeTest);

TEST_P(DecodeTest, EmbedsScaledWordsAndPositions) {
  constexpr size_t kVocab = 40, kPositions = 30, kSlots = 3;
  for (const size_t hidden : {64u, 36u, 3u, 512u}) {
    std::vector<std::vector<float>> word;
    for (size_t s = 0; s < kSlots; ++s) word.push_back(random_activations(kVocab * hidden));
    const auto position = random_values(kPositions * hidden);
    const uint32_t rows_of[] = {1, 9, 3, 20};
    const uint32_t slots[] = {2, 0, 1};
    const auto ranges = make_ranges(rows_of, slots);
    const uint32_t rows = total_rows(ranges);
    const auto slot_of = slot_of_rows(ranges);
    std::vector<int32_t> ids(rows);
    std::vector<uint32_t> positions(rows);
    for (uint32_t r = 0; r < rows; ++r) {
      ids[r] = r == 2 ? -1 : static_cast<int32_t>(random_.below(kVocab));
      positions[r] = static_cast<uint32_t>(random_.below(kPositions));
    }
    const float scale = std::sqrt(static_cast<float>(hidden));
    std::byte* out = make_output(rows * hidden, activation());
    stream_->launch(kernels::EmbedPositions{
        .ids = reinterpret_cast<const int32_t*>(upload_bits(ids)),
        .positions = positions,
        .ranges = ranges,
        .word = upload_slab(word, activation()),
        .position = reinterpret_cast<const float*>(upload(position, DType::kF32)),
        .scale = scale,
        .hidden = static_cast<uint32_t>(hidden),
        .out = out});
    std::vector<double> expected;
    for (uint32_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < hidden; ++i)
        expected.push_back(
            static_cast<double>(word[slot_of[r]][size_t(std::max(ids[r], 0)) * hidden + i]) *
                scale +
            position[positions[r] * hidden + i]);
    expect_close(download_activations(out, rows * hidden), expected, unit() + 1e-6,
                 "hidden " + std::to_string(hidden));
  }
}

// Appends rows in any order of blocks, copies blocks, and compares each row's attention with one
// over a plain array of its tokens. A padding row, before the last row, appends nothing and leaves
// its output unchanged.
TEST_P(DecodeTest, AttendsOverAppendedAndCopiedBlocks) {
  struct Case {
    uint32_t heads, head_size, block_tokens, layers;
  };
  for (const Case& c : {Case{2, 16, 4, 2}, Case{3, 5, 1, 1}, Case{8, 64, 16, 3}, Case{1, 40, 7, 2},
                        Case{4, 32, 64, 1}, Case{2, 128, 16, 1}, Case{1, 256, 33, 1},
                        Case{3, 24, 32, 1}, Case{2, 77, 3, 1}}) {
    SCOPED_TRACE(testing::Message()
                 << c.heads << "x" << c.head_size << " blocks of " << c.block_tokens);
    const uint32_t hidden = c.heads * c.head_size, kRows = 6, kBlocks = 64;
    const std::vector<uint32_t> lengths = {
        1, 2, c.block_tokens, c.block_tokens + 1, 3 * c.block_tokens, 2 * c.block_tokens + 1};
    constexpr uint32_t kPadding = kRows - 1;  // its index among the queries
    KvPool pool{.num_layers = c.layers, .block_tokens = c.block_tokens, .hidden = hidden};
    // NaNs show reads of kv_rows that were never written.
    pool.base =
        upload(std::vector<float>(kBlocks * pool.block_elements(), std::nanf("")), activation());
    // Blocks in a shuffled order. Each row has a spare block, which takes a copy of its last one.
    std::vector<uint32_t> order(kBlocks);
    std::iota(order.begin(), order.end(), 0u);
    for (uint32_t i = kBlocks - 1; i > 0; --i) std::swap(order[i], order[random_.below(i + 1)]);
    std::vector<uint32_t> blocks;
    std::vector<KvTable> tables;
    std::vector<KvCopy> copies;
    std::vector<std::vector<uint32_t>> kv_rows(kRows);
    for (uint32_t r = 0; r < kRows; ++r) {
      tables.push_back({static_cast<uint32_t>(blocks.size()), lengths[r]});
      for (uint32_t t = 0; t < lengths[r]; ++t) {
        if (t % c.block_tokens == 0) {
          blocks.push_back(order.back());
          order.pop_back();
        }
        kv_rows[r].push_back(blocks.back() * c.block_tokens + t % c.block_tokens);
      }
      copies.push_back({blocks.back(), order.back(), (lengths[r] - 1) % c.block_tokens + 1});
      blocks.back() = order.back();
      order.pop_back();
    }
    for (uint32_t layer = 0; layer < c.layers; ++layer) {
      // q, k and v of a row adjacent, as a fused QKV GEMM writes them: the cache takes k and v.
      std::vector<std::vector<float>> keys(kRows), values(kRows);
      for (uint32_t t = 0; t < *std::ranges::max_element(lengths); ++t) {
        std::vector<uint32_t> at;
        std::vector<float> qkv;
        for (uint32_t r = 0; r < kRows; ++r) {
          if (t >= lengths[r]) continue;
          if (r == kRows - 1) {
            at.push_back(kNoKvRow);
            qkv.insert(qkv.end(), 3 * hidden, std::nanf(""));
          }
          at.push_back(kv_rows[r][t]);
          const auto row = random_activations(3 * hidden);
          qkv.insert(qkv.end(), row.begin(), row.end());
          keys[r].insert(keys[r].end(), row.begin() + hidden, row.begin() + 2 * hidden);
          values[r].insert(values[r].end(), row.begin() + 2 * hidden, row.end());
        }
        const std::byte* rows = upload_activations(qkv);
        const size_t vector_bytes = hidden * dtype_bytes(activation());
        stream_->launch(kernels::AppendKv{.key = rows + vector_bytes,
                                          .value = rows + 2 * vector_bytes,
                                          .row_stride = 3 * size_t{hidden},
                                          .kv_rows = at,
                                          .pool = pool,
                                          .layer = layer});
      }
      stream_->launch(kernels::CopyKv{.copies = copies, .pool = pool});
      auto query = random_activations(kRows * 2 * hidden);
      auto padded_query = query;
      padded_query.insert(padded_query.begin() + kPadding * 2 * hidden, 2 * hidden, std::nanf(""));
      std::vector<KvTable> padded = tables;
      padded.insert(padded.begin() + kPadding, KvTable{.first = UINT32_MAX, .num_tokens = 0});
      const auto before = random_activations((kRows + 1) * hidden);
      std::byte* out = upload_activations(before);
      const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_size));
      stream_->launch(kernels::CachedAttention{.query = upload_activations(padded_query),
                                               .query_stride = 2 * size_t{hidden},
                                               .out = out,
                                               .tables = padded,
                                               .blocks = blocks,
                                               .pool = pool,
                                               .layer = layer,
                                               .num_heads = c.heads,
                                               .head_size = c.head_size,
                                               .scale = scale});
      std::vector<double> expected;
      for (uint32_t r = 0; r < kRows; ++r)
        for (uint32_t head = 0; head < c.heads; ++head) {
          std::vector<double> weights(lengths[r]);
          double total = 0;
          for (uint32_t t = 0; t < lengths[r]; ++t) {
            double dot = 0;
            for (uint32_t i = 0; i < c.head_size; ++i)
              dot += static_cast<double>(query[r * 2 * hidden + head * c.head_size + i]) *
                     keys[r][t * hidden + head * c.head_size + i];
            total += weights[t] = std::exp(dot * scale);
          }
          for (uint32_t i = 0; i < c.head_size; ++i) {
            double sum = 0;
            for (uint32_t t = 0; t < lengths[r]; ++t)
              sum += weights[t] / total * values[r][t * hidden + head * c.head_size + i];
            expected.push_back(sum);
          }
        }
      auto got = download_activations(out, (kRows + 1) * hidden);
      const auto padding = got.begin() + kPadding * hidden;
      EXPECT_TRUE(std::equal(padding, padding + hidden, before.begin() + kPadding * hidden));
      got.erase(padding, padding + hidden);
      expect_close(got, expected, unit() + 4e-6, "attention");
    }
  }
}

TEST_P(DecodeTest, FindsTheBestTokensOfEachRow) {
  for (const uint32_t vocab : {1u, 7u, 64u, 1000u, 5003u, 12290u}) {
    for (const uint32_t count : {1u, 8u, 24u, kMaxTopTokens}) {
      constexpr uint32_t kRows = 5;
      auto logits = random_values(kRows * vocab, 3.0);
      // The third row has many ties; the fourth has few finite logits.
      for (uint32_t v = 0; v < vocab; ++v) {
        logits[2 * vocab + v] = std::round(logits[2 * vocab + v]);
        if (v % 700 != 0) logits[3 * vocab + v] = -std::numeric_limits<float>::infinity();
      }
      std::vector<BannedTokens> banned_of;
      std::vector<int32_t> banned;
      for (uint32_t r = 0; r < kRows; ++r) {
        banned_of.push_back({.first = static_cast<uint32_t>(banned.size()),
                             .count = r,
                             .renormalizes = r == 2 || r == 4});
        for (uint32_t i = 0; i < r; ++i)  // the first is the row's best token
          banned.push_back(
              i == 0 ? static_cast<int32_t>(std::max_element(logits.begin() + r * vocab,
                                                             logits.begin() + (r + 1) * vocab) -
                                            (logits.begin() + r * vocab))
                     : static_cast<int32_t>(random_.below(vocab)));
      }
      std::byte* scores = make_output(kRows * count, DType::kF32);
      std::byte* tokens = make_output(kRows * count, DType::kF32);
      stream_->launch(
          kernels::TopTokens{.logits = reinterpret_cast<float*>(upload(logits, DType::kF32)),
                             .rows = kRows,
                             .vocab = vocab,
                             .banned_of = banned_of,
                             .banned = banned,
                             .count = count,
                             .log_probabilities = reinterpret_cast<float*>(scores),
                             .tokens = reinterpret_cast<int32_t*>(tokens)});
      std::vector<int32_t> got(kRows * count);
      std::vector<float> got_scores(kRows * count);
      stream_->copy_to_host(tokens, got.size() * 4, got.data());
      stream_->copy_to_host(scores, got.size() * 4, got_scores.data());
      ASSERT_TRUE(stream_->synchronize());
      for (uint32_t r = 0; r < kRows; ++r) {
        const float* row = logits.data() + r * vocab;
        double sum = 0;
        std::vector<int32_t> order;
        const std::span<const int32_t> of_row =
            std::span(banned).subspan(banned_of[r].first, banned_of[r].count);
        for (int32_t v = 0; v < static_cast<int32_t>(vocab); ++v) {
          const bool is_banned = std::ranges::find(of_row, v) != of_row.end();
          if (!is_banned || !banned_of[r].renormalizes)
            sum += std::exp(static_cast<double>(row[v]));
          if (!is_banned && std::isfinite(row[v])) order.push_back(v);
        }
        std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
        order.resize(count, -1);
        for (uint32_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[r * count + i], order[i]) << "vocab " << vocab << " row " << r;
          if (order[i] >= 0) {
            EXPECT_NEAR(got_scores[r * count + i], row[order[i]] - std::log(sum), 5e-6);
          }
        }
      }
    }
  }
}

// The chosen rows are those that are not padding. The logits of the others are NaN.
TEST_P(DecodeTest, FindsTokensOfChosenRowsOnly) {
  constexpr uint32_t kRows = 9;
  for (const uint32_t vocab : {50u, 5003u}) {
    std::vector<float> logits(kRows * vocab, std::nanf(""));
    const std::vector<uint32_t> chosen = {1, 4, 5, 8};
    std::vector<BannedTokens> banned_of;
    std::vector<int32_t> banned, expected;
    for (const uint32_t row : chosen) {
      const auto best = static_cast<int32_t>(5 * row), next = static_cast<int32_t>(vocab - row);
      std::fill_n(logits.begin() + row * vocab, vocab, 0.5f);
      logits[row * vocab + static_cast<uint32_t>(best)] = 3;
      logits[row * vocab + static_cast<uint32_t>(next)] = 2;
      banned_of.push_back({static_cast<uint32_t>(banned.size()), row == 5});
      if (row == 5) banned.push_back(best);
      for (const int32_t token : row == 5 ? std::vector{next, 0} : std::vector{best, next})
        expected.push_back(token);
    }
    std::byte* scores = make_output(8, DType::kF32);
    std::byte* tokens = make_output(8, DType::kF32);
    stream_->launch(
        kernels::TopTokens{.logits = reinterpret_cast<float*>(upload(logits, DType::kF32)),
                           .rows = 4,
                           .chosen = chosen,
                           .vocab = vocab,
                           .banned_of = banned_of,
                           .banned = banned,
                           .count = 2,
                           .log_probabilities = reinterpret_cast<float*>(scores),
                           .tokens = reinterpret_cast<int32_t*>(tokens)});
    std::vector<int32_t> got(8);
    stream_->copy_to_host(tokens, got.size() * 4, got.data());
    ASSERT_TRUE(stream_->synchronize());
    EXPECT_EQ(got, expected) << vocab;
    for (const float score : download(scores, 8, DType::kF32)) EXPECT_LT(score, 0);
  }
}

TEST_P(DecodeTest, TiesGoToLowestTokenAndNansAreSkipped) {
  std::vector<float> logits(2 * 50, 1.0f);
  logits[30] = 2.0f;
  std::fill(logits.begin() + 50, logits.end(), std::nanf(""));
  std::byte* scores = make_output(8, DType::kF32);
  std::byte* tokens = make_output(8, DType::kF32);
  stream_->launch(
      kernels::TopTokens{.logits = reinterpret_cast<float*>(upload(logits, DType::kF32)),
                         .rows = 2,
                         .vocab = 50,
                         .count = 4,
                         .log_probabilities = reinterpret_cast<float*>(scores),
                         .tokens = reinterpret_cast<int32_t*>(tokens)});
  std::vector<int32_t> got(8);
  stream_->copy_to_host(tokens, got.size() * 4, got.data());
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(got, (std::vector<int32_t>{30, 0, 1, 2, -1, -1, -1, -1}));
}

}  // namespace
}  // namespace itif::kernels
