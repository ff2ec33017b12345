// Rows of itif-bench operators for images (ViT-base's patches) and decoders (Marian's step: 16
// beams of 128 tokens).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "workload/operator_checks.h"
#include "workload/operator_rows.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSide = 224, kPatch = 16, kChannels = 3, kAcross = kSide / kPatch;
constexpr uint32_t kPatches = kAcross * kAcross, kPatchValues = kChannels * kPatch * kPatch;
constexpr uint32_t kBeams = 16, kCachedLength = 128, kBlockTokens = 16;
constexpr uint32_t kWidth = 512, kDecoderHeads = 8, kMarianVocab = 58101, kCandidates = 8;

Status gather_patches(OperatorRows& rows) {
  device::Stream& stream = rows.stream();
  static constexpr float kScale[] = {1 / 127.5f, 1 / 127.5f, 1 / 127.5f}, kShift[] = {-1, -1, -1};
  std::vector<std::byte> pixels(size_t{kSide} * kSide * kChannels);
  Random random(1);
  for (std::byte& pixel : pixels) pixel = static_cast<std::byte>(random.below(256));
  std::vector<BytePiece> pieces;  // of a datagram's size
  for (uint32_t at = 0; at < pixels.size(); at += 1368)
    pieces.push_back(
        {&pixels[at], std::min<uint32_t>(1368, static_cast<uint32_t>(pixels.size()) - at)});
  const kernels::ImagePixels image{.pieces = pieces, .scale = kScale, .shift = kShift};
  ITIF_ASSIGN(void* const out, rows.random_buffer(size_t{kPatches} * kPatchValues, rows.type()));
  return rows.from_host(
      "gather patches, 1 image", pixels.size(),
      size_t{kPatches} * kPatchValues * dtype_bytes(rows.type()),
      [&] {
        stream.launch(kernels::GatherPatches{.images = {&image, 1},
                                             .height = kSide,
                                             .width = kSide,
                                             .channels = kChannels,
                                             .patch = kPatch,
                                             .out = out});
      },
      [&](const std::string& title) {
        const auto got =
            read_values(rows.device(), out, size_t{kPatches} * kPatchValues, rows.type());
        return check_rows(
            title, got, kPatches, kPatchValues, rows.tolerance(), [&](uint32_t patch) {
              std::vector<double> values;
              for (size_t c = 0; c < kChannels; ++c)
                for (size_t y = 0; y < kPatch; ++y)
                  for (size_t x = 0; x < kPatch; ++x) {
                    const size_t pixel =
                        (patch / kAcross * kPatch + y) * kSide + patch % kAcross * kPatch + x;
                    values.push_back(static_cast<int>(pixels[pixel * kChannels + c]) / 127.5 - 1);
                  }
              return values;
            });
      });
}

Status embed_patches(OperatorRows& rows) {
  device::Stream& stream = rows.stream();
  constexpr uint32_t kRows = kPatches + 1;
  const size_t count = size_t{kRows} * kHidden, bytes = count * dtype_bytes(rows.type());
  ITIF_ASSIGN(void* const x, rows.random_buffer(count, rows.type()));
  ITIF_ASSIGN(void* const copy, rows.random_buffer(count, rows.type()));
  ITIF_ASSIGN(void* const position, rows.random_buffer(count, rows.type()));
  ITIF_ASSIGN(void* const token, rows.random_buffer(kHidden, DType::kF32));
  const kernels::SegmentRows segment{0, kRows};
  const kernels::RowRange range{0, kRows, 0};
  return rows.in_place(
      "embed patches, 1 image", 3 * bytes, {copy, x, bytes},
      [&] {
        stream.launch(kernels::EmbedPatches{.x = copy,
                                            .segments = {&segment, 1},
                                            .ranges = {&range, 1},
                                            .class_token = shared_slab(token),
                                            .position = shared_slab(position),
                                            .hidden = kHidden});
      },
      [&](const std::string& title) {
        const auto read = [&](void* data) {
          return read_values(rows.device(), data, count, rows.type());
        };
        const auto before = read(x), kv_rows = read(position);
        const auto class_token = read_values(rows.device(), token, kHidden, DType::kF32);
        return check_rows(title, read(copy), kRows, kHidden, rows.tolerance(), [&](uint32_t row) {
          std::vector<double> values;
          for (size_t i = 0; i < kHidden; ++i) {
            const size_t at = row * size_t{kHidden} + i;
            values.push_back(double{row == 0 ? class_token[i] : before[at]} + kv_rows[at]);
          }
          return values;
        });
      });
}

Status embed_positions(OperatorRows& rows) {
  device::Stream& stream = rows.stream();
  constexpr uint32_t kRows = 4 * kCachedLength, kWords = 8000;
  const size_t element = dtype_bytes(rows.type());
  ITIF_ASSIGN(void* const words, rows.random_buffer(size_t{kWords} * kWidth, rows.type()));
  ITIF_ASSIGN(void* const kv_rows, rows.random_buffer(size_t{kCachedLength} * kWidth, DType::kF32));
  ITIF_ASSIGN(void* const out, rows.random_buffer(size_t{kRows} * kWidth, rows.type()));
  std::vector<uint32_t> ids(kRows);
  std::vector<uint32_t> positions(kRows);
  Random random(2);
  for (uint32_t r = 0; r < kRows; ++r) {
    ids[r] = static_cast<uint32_t>(random.below(kWords));
    positions[r] = r % kCachedLength;
  }
  ITIF_ASSIGN(const int32_t* const ids_there, rows.ids(ids));
  const kernels::RowRange range{0, kRows, 0};
  return rows.memory_bound(
      fmt::format("embed positions {}", kRows), size_t{kRows} * kWidth * (2 * element + 4),
      [&] {
        stream.launch(kernels::EmbedPositions{.ids = ids_there,
                                              .positions = positions,
                                              .ranges = {&range, 1},
                                              .word = shared_slab(words),
                                              .position = static_cast<const float*>(kv_rows),
                                              .scale = 22.6f,
                                              .hidden = kWidth,
                                              .out = out});
      },
      [&](const std::string& title) {
        const auto word = read_values(rows.device(), words, size_t{kWords} * kWidth, rows.type());
        const auto position =
            read_values(rows.device(), kv_rows, size_t{kCachedLength} * kWidth, DType::kF32);
        return check_rows(title,
                          read_values(rows.device(), out, size_t{kRows} * kWidth, rows.type()),
                          kRows, kWidth, rows.tolerance(), [&](uint32_t row) {
                            std::vector<double> values;
                            for (size_t i = 0; i < kWidth; ++i)
                              values.push_back(double{word[size_t{ids[row]} * kWidth + i]} * 22.6f +
                                               position[positions[row] * size_t{kWidth} + i]);
                            return values;
                          });
      });
}

Status cached_attention(OperatorRows& rows) {
  device::Stream& stream = rows.stream();
  constexpr uint32_t kHeadSize = kWidth / kDecoderHeads,
                     kBlocksOfBeam = kCachedLength / kBlockTokens;
  const size_t element = dtype_bytes(rows.type());
  kernels::KvPool pool{.num_layers = 1, .block_tokens = kBlockTokens, .hidden = kWidth};
  const size_t elements = pool.block_elements() * kBeams * kBlocksOfBeam;
  ITIF_ASSIGN(void* const cache, rows.random_buffer(elements, rows.type()));
  pool.base = static_cast<std::byte*>(cache);
  ITIF_ASSIGN(void* const query, rows.random_buffer(kBeams * kWidth, rows.type()));
  ITIF_ASSIGN(void* const out, rows.random_buffer(kBeams * kWidth, rows.type()));
  std::vector<uint32_t> blocks(kBeams * kBlocksOfBeam);
  std::iota(blocks.rbegin(), blocks.rend(), 0u);  // not in the order of memory
  std::vector<kernels::KvTable> tables;
  for (uint32_t beam = 0; beam < kBeams; ++beam)
    tables.push_back({beam * kBlocksOfBeam, kCachedLength});
  return rows.memory_bound(
      fmt::format("cached attention, {} x {}", kBeams, kCachedLength), elements * element,
      [&] {
        stream.launch(kernels::CachedAttention{.query = query,
                                               .query_stride = kWidth,
                                               .out = out,
                                               .tables = tables,
                                               .blocks = blocks,
                                               .pool = pool,
                                               .num_heads = kDecoderHeads,
                                               .head_size = kHeadSize,
                                               .scale = 0.125f});
      },
      [&](const std::string& title) {
        const auto all = read_values(rows.device(), cache, elements, rows.type());
        const auto queries = read_values(rows.device(), query, kBeams * kWidth, rows.type());
        return check_rows(
            title, read_values(rows.device(), out, kBeams * kWidth, rows.type()), kBeams, kWidth,
            3 * rows.tolerance(), [&](uint32_t row) {
              // Plain attention over this beam's row of Q and its rows of K and V.
              std::vector<float> qkv(size_t{kCachedLength} * 3 * kWidth);
              for (uint32_t t = 0; t < kCachedLength; ++t) {
                const uint32_t kv_row =
                    blocks[row * kBlocksOfBeam + t / kBlockTokens] * kBlockTokens +
                    t % kBlockTokens;
                float* to = qkv.data() + size_t{t} * 3 * kWidth;
                std::copy_n(queries.begin() + row * ptrdiff_t{kWidth}, kWidth, to);
                for (const uint32_t is_value : {0u, 1u})
                  std::copy_n(
                      all.begin() + static_cast<ptrdiff_t>(pool.offset(kv_row, 0, is_value)),
                      kWidth, to + (1 + is_value) * kWidth);
              }
              return plain_attention(qkv, 0, 0, kCachedLength, kDecoderHeads, kHeadSize, 0.125);
            });
      });
}

Status top_tokens(OperatorRows& rows) {
  device::Stream& stream = rows.stream();
  const size_t count = size_t{kBeams} * kMarianVocab;
  ITIF_ASSIGN(void* const logits, rows.random_buffer(count, DType::kF32));
  ITIF_ASSIGN(void* const copy, rows.random_buffer(count, DType::kF32));
  ITIF_ASSIGN(void* const found, rows.random_buffer(2 * kBeams * kCandidates, DType::kF32));
  auto* const log_probabilities = static_cast<float*>(found);
  auto* const tokens = reinterpret_cast<int32_t*>(log_probabilities + kBeams * kCandidates);
  return rows.in_place(
      fmt::format("top tokens, {} x {}", kBeams, kMarianVocab), 4 * count,
      {copy, logits, 4 * count},
      [&] {
        stream.launch(kernels::TopTokens{.logits = static_cast<float*>(copy),
                                         .rows = kBeams,
                                         .vocab = kMarianVocab,
                                         .count = kCandidates,
                                         .log_probabilities = log_probabilities,
                                         .tokens = tokens});
      },
      [&](const std::string& title) {
        const auto all = read_values(rows.device(), logits, count, DType::kF32);
        std::vector<int32_t> there(kBeams * kCandidates);
        rows.device().download(tokens, there.size() * sizeof(int32_t), there.data());
        const std::vector<float> got(there.begin(), there.end());
        return check_rows(title, got, kBeams, kCandidates, 0, [&](uint32_t row) {
          std::vector<uint32_t> order(kMarianVocab);
          std::iota(order.begin(), order.end(), 0u);
          const float* const own = all.data() + size_t{row} * kMarianVocab;
          std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return own[a] > own[b]; });
          return std::vector<double>(order.begin(), order.begin() + kCandidates);
        });
      });
}

}  // namespace

Status image_and_decoder_rows(OperatorRows& rows) {
  ITIF_TRY(gather_patches(rows));
  ITIF_TRY(embed_patches(rows));
  ITIF_TRY(embed_positions(rows));
  ITIF_TRY(cached_attention(rows));
  return top_tokens(rows);
}

}  // namespace itif::bench
