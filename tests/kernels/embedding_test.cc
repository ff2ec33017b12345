// Gathering ids from packets, and the fused embedding.
#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class EmbeddingTest : public DeviceTest {};
ITIF_DEVICE_SUITE(EmbeddingTest);

TEST_P(EmbeddingTest, GathersBothIdWidthsAndRejectsIdsPastVocabulary) {
  alignas(4) const uint16_t narrow[] = {5, 0, 99, 100, 65535};
  alignas(4) const uint32_t wide[] = {99, 100, 0xffffffffu, 0x80000000u, 7};
  std::byte* ids = make_output(11, DType::kF32);
  const IdPiece pieces[] = {
      {.data = reinterpret_cast<const std::byte*>(wide),
       .num_ids = 5,
       .first_row = 5,
       .id_bytes = 4},
      {.data = reinterpret_cast<const std::byte*>(narrow),
       .num_ids = 5,
       .first_row = 0,
       .id_bytes = 2},
      {.data = nullptr, .num_ids = 0, .first_row = 10, .id_bytes = 2},
  };
  stream_->launch(kernels::GatherIds{
      .pieces = pieces, .ids = reinterpret_cast<int32_t*>(ids), .vocab_size = 100});
  std::vector<int32_t> got(10);
  stream_->copy_to_host(ids, got.size() * 4, got.data());
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(got, (std::vector<int32_t>{5, 0, 99, -1, -1, 99, -1, -1, -1, 7}));
}

// The sum of up to three rows is rounded once at the end: an error of a few units of the output's
// type.
TEST_P(EmbeddingTest, EmbedsEachRowWithItsTenantsTables) {
  constexpr size_t kVocab = 50, kPositions = 40, kTypes = 2, kSlots = 3;
  for (const size_t hidden : {36u, 64u, 80u, 768u, 3u}) {
    for (const bool has_types : {true, false}) {
      for (const bool explicit_types : {true, false}) {
        std::vector<std::vector<float>> word, position, type, gamma, beta;
        for (size_t s = 0; s < kSlots; ++s) {
          word.push_back(random_activations(kVocab * hidden));
          position.push_back(random_activations(kPositions * hidden));
          type.push_back(random_activations(kTypes * hidden));
          gamma.push_back(random_values(hidden, 0.2, 1.0));
          beta.push_back(random_values(hidden, 0.2));
        }
        const uint32_t rows_of[] = {1, 7, 1, 20, 2};
        const uint32_t slots[] = {2, 0, 1};
        const auto ranges = make_ranges(rows_of, slots);
        const uint32_t rows = total_rows(ranges);
        std::vector<float> raw_ids(rows);
        std::vector<int32_t> ids(rows);
        std::vector<uint32_t> positions(rows);
        std::vector<uint8_t> types(rows);
        for (uint32_t r = 0; r < rows; ++r) {
          ids[r] = r == 4 ? -1 : static_cast<int32_t>(random_.below(kVocab));
          raw_ids[r] = std::bit_cast<float>(ids[r]);
          positions[r] = static_cast<uint32_t>(random_.below(kPositions));
          types[r] = explicit_types ? static_cast<uint8_t>(random_.below(kTypes)) : 0;
        }
        std::byte* out = make_output(rows * hidden, activation());
        stream_->launch(kernels::EmbedLayerNorm{
            .ids = reinterpret_cast<const int32_t*>(upload(raw_ids, DType::kF32)),
            .positions = positions,
            .token_types =
                explicit_types ? std::span<const uint8_t>(types) : std::span<const uint8_t>(),
            .ranges = ranges,
            .word = upload_slab(word, activation()),
            .position = upload_slab(position, activation()),
            .token_type = has_types ? upload_slab(type, activation()) : Slab{},
            .gamma = upload_slab(gamma, DType::kF32),
            .beta = upload_slab(beta, DType::kF32),
            .epsilon = 1e-12f,
            .hidden = static_cast<uint32_t>(hidden),
            .out = out});
        std::vector<double> expected;
        const auto slot_of = slot_of_rows(ranges);
        for (uint32_t r = 0; r < rows; ++r) {
          const uint32_t s = slot_of[r];
          const auto id = static_cast<size_t>(ids[r] < 0 ? 0 : ids[r]);
          std::vector<double> row(hidden);
          for (size_t i = 0; i < hidden; ++i) {
            row[i] =
                double{word[s][id * hidden + i]} + double{position[s][positions[r] * hidden + i]};
            if (has_types) row[i] += type[s][types[r] * hidden + i];
          }
          const auto normalized = reference::layer_norm(row, gamma[s], beta[s], 1e-12);
          expected.insert(expected.end(), normalized.begin(), normalized.end());
        }
        expect_close(download_activations(out, rows * hidden), expected,
                     1.01 * unit() + (hidden < 16 ? 1e-5 : 2e-6),
                     "hidden " + std::to_string(hidden));
      }
    }
  }
}

}  // namespace
}  // namespace itif::kernels
