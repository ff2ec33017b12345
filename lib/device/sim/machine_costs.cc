#include "device/sim/machine_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace itif::device {
namespace {

// Edges of GEMM tiles, and the share of a large tile's rate that they reach: a tile of edge e reads
// 2·e·k values for 2·e²·k operations, so smaller tiles depend more on caches. The shares are
// assumptions; cuBLAS has tiles of these sizes.
struct Tile {
  double edge;
  double share;
};
constexpr Tile kTiles[] = {{128, 1.0}, {64, 0.75}, {32, 0.45}};
// Up to so many rows, GEMMs split k, so that all multiprocessors work on each row: a decoder's
// steps are mostly bound by reading weights. They reach the share of the smallest tile.
constexpr uint32_t kFewRows = 32;
constexpr double kAttentionQueries = 64;  // of a tile, as in FlashAttention's kernels

double rows_of(std::span<const kernels::RowRange> ranges) noexcept {
  double rows = 0;
  for (const kernels::RowRange& range : ranges) rows += range.num_rows;
  return rows;
}

template <class Segments>
double tokens_of(const Segments& segments) noexcept {
  double rows = 0;
  for (const auto& segment : segments) rows += segment.num_rows;
  return rows;
}

template <class Segments>
double scores_of(const Segments& segments) noexcept {
  double scores = 0;
  for (const auto& segment : segments)
    scores += static_cast<double>(segment.num_rows) * segment.num_rows;
  return scores;
}

// Returns the machine with a part of its multiprocessors.
Machine part_of(const Machine& machine, double part) noexcept {
  Machine slice = machine;
  slice.multiprocessors =
      std::max(1u, static_cast<uint32_t>(std::lround(machine.multiprocessors * part)));
  const double rate = static_cast<double>(slice.multiprocessors) / machine.multiprocessors;
  slice.f32_flops *= rate;
  slice.f16_flops *= rate;
  slice.bf16_flops *= rate;
  slice.bytes_per_s *= rate;
  return slice;
}

struct Costs {
  const Machine& machine;
  const ComputeTypes types;

  // Operators without an estimate below.
  template <class Args>
  double operator()(const Args*) const noexcept {
    return machine.launch_ns;
  }
  double operator()(const kernels::GatherIds* args) const noexcept;
  double operator()(const kernels::EmbedLayerNorm* args) const noexcept;
  double operator()(const kernels::GatherPatches* args) const noexcept;
  double operator()(const kernels::EmbedPatches* args) const noexcept;
  double operator()(const kernels::GroupedGemms* args) const noexcept;
  double operator()(const kernels::Attention* args) const noexcept;
  double operator()(const kernels::ResidualLayerNorm* args) const noexcept;
  double operator()(const kernels::PoolSegments* args) const noexcept;
  double operator()(const kernels::ToF32* args) const noexcept;
  double operator()(const kernels::SmallLinears* args) const noexcept;
  double operator()(const kernels::EmbedPositions* args) const noexcept;
  double operator()(const kernels::AppendKv* args) const noexcept;
  double operator()(const kernels::CopyKv* args) const noexcept;
  double operator()(const kernels::CachedAttention* args) const noexcept;
  double operator()(const kernels::TopTokens* args) const noexcept;
  double operator()(const kernels::AddLowRank* args) const noexcept;
  double operator()(const kernels::BiasActivation* args) const noexcept;
  double operator()(const kernels::SplitHeads* args) const noexcept;
  double operator()(const kernels::MergeHeads* args) const noexcept;
  double operator()(const kernels::BatchedGemm* args) const noexcept;
  double operator()(const kernels::Softmax* args) const noexcept;

  // One launch of the GEMMs of all ranges.
  double gemm_ns(const kernels::GroupedGemm& args,
                 std::span<const kernels::RowRange> ranges) const noexcept;
  // Tiles of `flops` each, and bytes that all of them move.
  double tiles_ns(double tiles, double tile_flops, double bytes) const noexcept;
  // A launch that moves bytes, for work on `rows` rows.
  double rows_ns(double rows, double bytes) const noexcept;
  double act_bytes() const noexcept { return static_cast<double>(dtype_bytes(types.activations)); }
};

double Costs::tiles_ns(double tiles, double tile_flops, double bytes) const noexcept {
  const double rate = machine.flops(types.activations) * machine.attained;
  const double waves = std::ceil(tiles / machine.multiprocessors);
  const double arithmetic = waves * tile_flops * machine.multiprocessors / rate;
  return std::max(arithmetic, bytes / machine.bytes_per_s) * 1e9;
}

double Costs::rows_ns(double rows, double bytes) const noexcept {
  if (rows == 0) return machine.launch_ns;
  const double filled = std::min(1.0, rows / machine.multiprocessors);
  return machine.launch_ns + bytes / (machine.bytes_per_s * filled) * 1e9;
}

double Costs::gemm_ns(const kernels::GroupedGemm& args,
                      std::span<const kernels::RowRange> ranges) const noexcept {
  const double n = args.n, k = args.k;
  const double weight_bytes = static_cast<double>(dtype_bytes(types.weights));
  const double out_bytes = args.f32_out ? sizeof(float) : act_bytes();
  double bytes = 0;
  for (const kernels::RowRange& range : ranges)
    if (range.num_rows > 0)
      bytes += n * k * weight_bytes + range.num_rows * (n * out_bytes + k * act_bytes());
  if (bytes == 0) return 0;
  double fastest = INFINITY;
  if (std::ranges::all_of(ranges, [](const auto& range) { return range.num_rows <= kFewRows; })) {
    const double flops = 2 * rows_of(ranges) * n * k / kTiles[std::size(kTiles) - 1].share;
    fastest = tiles_ns(machine.multiprocessors, flops / machine.multiprocessors, bytes);
  }
  for (const Tile& tile : kTiles) {
    double tiles = 0;
    for (const kernels::RowRange& range : ranges)
      tiles += std::ceil(range.num_rows / tile.edge) * std::ceil(n / tile.edge);
    fastest = std::min(fastest, tiles_ns(tiles, 2 * tile.edge * tile.edge * k / tile.share, bytes));
  }
  return machine.launch_ns + fastest;
}

double Costs::operator()(const kernels::GroupedGemms* args) const noexcept {
  double total = 0;
  for (const kernels::GroupedGemm& gemm : args->all) {
    if (!gemm.schedule.calls().empty()) {
      size_t first = 0;
      for (const kernels::GemmCall& call : gemm.schedule.calls()) {
        total += gemm_ns(gemm, gemm.ranges.subspan(first, call.num_ranges));
        first += call.num_ranges;
      }
    } else if (gemm.schedule.mode_of(gemm.n, gemm.k) == kernels::GemmMode::kConcurrent) {
      total += gemm_ns(gemm, gemm.ranges);
    } else {
      for (size_t i = 0; i < gemm.ranges.size(); ++i)
        total += gemm_ns(gemm, gemm.ranges.subspan(i, 1));
    }
  }
  return total;
}

double Costs::operator()(const kernels::Attention* args) const noexcept {
  const double hidden = static_cast<double>(args->num_heads) * args->head_size;
  // Masked scores are computed, too.
  const auto matrices = args->score_matrices.empty() ? args->segments : args->score_matrices;
  double tiles = 0, longest = 0;
  for (const kernels::SegmentRows& matrix : matrices) {
    tiles += args->num_heads * std::ceil(matrix.num_rows / kAttentionQueries);
    longest = std::max<double>(longest, matrix.num_rows);
  }
  // The arithmetic of all tiles, but never faster than the longest single one.
  const double flops = 4 * scores_of(matrices) * hidden;
  const double mean = tiles > 0 ? flops / tiles : 0;
  const double largest = 4 * std::min(longest, kAttentionQueries) * longest * args->head_size;
  const double bytes = 4 * tokens_of(matrices) * hidden * act_bytes();
  return machine.launch_ns + std::max(tiles_ns(tiles, mean, bytes), tiles_ns(1, largest, 0));
}

double Costs::operator()(const kernels::GatherIds* args) const noexcept {
  double ids = 0;
  for (const kernels::IdPiece& piece : args->pieces) ids += piece.num_ids;
  return machine.launch_ns + ids * 4 / machine.host_bytes_per_s * 1e9;
}
double Costs::operator()(const kernels::EmbedLayerNorm* args) const noexcept {
  const double rows = rows_of(args->ranges);
  return rows_ns(rows, rows * args->hidden * 4 * act_bytes());
}
double Costs::operator()(const kernels::GatherPatches* args) const noexcept {
  double bytes = 0;
  for (const kernels::ImagePixels& image : args->images)
    for (const BytePiece& piece : image.pieces) bytes += piece.bytes;
  return machine.launch_ns + bytes / machine.host_bytes_per_s * 1e9;
}
double Costs::operator()(const kernels::EmbedPatches* args) const noexcept {
  const double rows = tokens_of(args->segments);
  return rows_ns(rows, rows * args->hidden * 3 * act_bytes());
}
double Costs::operator()(const kernels::ResidualLayerNorm* args) const noexcept {
  const double rows = rows_of(args->ranges);
  return rows_ns(rows, rows * args->hidden * (args->sum != nullptr ? 4 : 3) * act_bytes());
}
double Costs::operator()(const kernels::PoolSegments* args) const noexcept {
  double rows = 0;
  for (const uint32_t chosen : args->chosen)
    rows += args->pooling == kernels::Pooling::kFirst ? 1 : args->segments[chosen].num_rows;
  return rows_ns(rows, rows * args->hidden * (act_bytes() + 4));
}
double Costs::operator()(const kernels::ToF32* args) const noexcept {
  const double count = static_cast<double>(args->count);
  return machine.launch_ns + count * (act_bytes() + 4) / machine.bytes_per_s * 1e9;
}
double Costs::operator()(const kernels::SmallLinears* args) const noexcept {
  double bytes = 0, rows = 0;
  for (const kernels::SmallLinear& linear : args->all) {
    rows += linear.rows;
    bytes +=
        4.0 * (double{1} * linear.n * linear.k + double{1} * linear.rows * (linear.n + linear.k));
  }
  return rows_ns(rows, bytes);
}
double Costs::operator()(const kernels::EmbedPositions* args) const noexcept {
  const double rows = rows_of(args->ranges);
  return rows_ns(rows, rows * args->hidden * 3 * act_bytes());
}
double Costs::operator()(const kernels::AppendKv* args) const noexcept {
  const double rows = static_cast<double>(args->kv_rows.size());
  return rows_ns(rows, rows * args->pool.hidden * 4 * act_bytes());
}
double Costs::operator()(const kernels::CopyKv* args) const noexcept {
  double tokens = 0;
  for (const kernels::KvCopy& copy : args->copies) tokens += copy.num_tokens;
  return rows_ns(tokens, tokens * args->pool.num_layers * args->pool.hidden * 4 * act_bytes());
}
double Costs::operator()(const kernels::CachedAttention* args) const noexcept {
  // K and V of each token, and a row's query and output. Arithmetic never takes longer: each value
  // that is read takes part in one multiplication and one addition.
  double vectors = 0;
  for (const kernels::KvTable& table : args->tables)
    if (table.num_tokens > 0) vectors += 2.0 * table.num_tokens + 2;
  const double hidden = static_cast<double>(args->num_heads) * args->head_size;
  return rows_ns(static_cast<double>(args->tables.size()) * args->num_heads,
                 vectors * hidden * act_bytes());
}
double Costs::operator()(const kernels::TopTokens* args) const noexcept {
  return rows_ns(args->rows, 2.0 * 4 * args->rows * args->vocab);
}
// Tiles of the smallest edge. Each module is taken to have the adapter's largest rank.
double Costs::operator()(const kernels::AddLowRank* args) const noexcept {
  constexpr Tile kTile = kTiles[std::size(kTiles) - 1];
  const double k = args->k, width = args->width;
  double tiles = 0, flops = 0, bytes = 0;
  for (const kernels::AdapterRows& adapter : args->adapters) {
    if (adapter.num_rows == 0) continue;
    const double rows = adapter.num_rows, rank = adapter.max_rank;
    tiles += std::ceil(rows / kTile.edge);
    flops += 2 * rows * rank * (k * args->num_modules + width);
    bytes += (rank * (k * args->num_modules + width) + rows * (k + 2 * width)) * act_bytes();
  }
  if (tiles == 0) return 0;
  return machine.launch_ns + tiles_ns(tiles, flops / tiles / kTile.share, bytes);
}
double Costs::operator()(const kernels::BiasActivation* args) const noexcept {
  const double rows = rows_of(args->ranges);
  return rows_ns(rows, rows * args->width * 2 * act_bytes());
}
double Costs::operator()(const kernels::SplitHeads* args) const noexcept {
  const double rows = tokens_of(args->segments) * static_cast<double>(args->parts.size());
  return rows_ns(rows, rows * args->num_heads * args->head_size * 2 * act_bytes());
}
double Costs::operator()(const kernels::MergeHeads* args) const noexcept {
  const double rows = tokens_of(args->segments);
  return rows_ns(rows, rows * args->num_heads * args->head_size * 2 * act_bytes());
}
double Costs::operator()(const kernels::BatchedGemm* args) const noexcept {
  double total = 0;
  for (const kernels::MatrixBatch& batch : args->batches) {
    const double m = batch.m, n = batch.n, k = batch.k, count = batch.count;
    double fastest = INFINITY;
    for (const Tile& tile : kTiles) {
      const double tiles = count * std::ceil(m / tile.edge) * std::ceil(n / tile.edge);
      fastest = std::min(fastest, tiles_ns(tiles, 2 * tile.edge * tile.edge * k / tile.share,
                                           count * (m * k + k * n + m * n) * act_bytes()));
    }
    total += machine.launch_ns + fastest;
  }
  return total;
}
double Costs::operator()(const kernels::Softmax* args) const noexcept {
  return rows_ns(tokens_of(args->segments) * args->num_heads,
                 scores_of(args->segments) * args->num_heads * 2 * act_bytes());
}

}  // namespace

double MachineCosts::operator_ns(kernels::Operator op, double part) noexcept {
  if (part >= 1) return std::visit(Costs{machine_, types_}, op);
  const Machine slice = part_of(machine_, part);
  return std::visit(Costs{slice, types_}, op);
}

double MachineCosts::copy_ns(size_t bytes) noexcept {
  return machine_.launch_ns + static_cast<double>(bytes) / machine_.host_bytes_per_s * 1e9;
}

double MachineCosts::collect_ns(size_t bytes) noexcept {
  return machine_.launch_ns + static_cast<double>(bytes) / machine_.collected_bytes_per_s * 1e9;
}

}  // namespace itif::device
