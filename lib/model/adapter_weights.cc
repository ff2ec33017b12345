#include "model/adapter_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace itif::model {
namespace {

using kernels::LowRankModule;

constexpr size_t kAlignment = 64;  // a cache line, any vector load, and a GPU's packs

size_t aligned(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}
uint32_t padded(uint32_t rank) {
  return static_cast<uint32_t>(aligned(rank, kernels::kRankStep));
}
size_t columns_of(const WeightKind& kind) {
  return kind.gemm.n / (kind.sources.size() / kind.num_gemms);
}
size_t table_bytes(std::span<const WeightKind> kinds) {
  return aligned(ModuleNumbers(kinds).count() * sizeof(LowRankModule), kAlignment);
}

// Copies a matrix to the device as rows of `stride` values, of which the first `columns` are
// value(row, column) and the others 0.
template <class Value>
Status upload(device::Device& device, size_t rows, size_t columns, size_t stride,
              const Value& value, const std::string& what, std::byte* to) {
  const DType type = device.info().compute.activations;
  const double largest = type == DType::kF16 ? 65504.0 : 3.38e38;  // bf16 and f32 have one range
  std::vector<float> values(rows * stride);
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column) {
      const double of = value(row, column);
      if (!(std::abs(of) <= largest))
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: {} times its scale is {}, which {} cannot hold: use a group "
                                "of another dtype",
                                what, "a value", of, dtype_name(type)));
      values[row * stride + column] = static_cast<float>(of);
    }
  return device.upload(
      {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, Shape{rows, stride}}, type,
      to);
}

}  // namespace

ModuleNumbers::ModuleNumbers(std::span<const WeightKind> kinds) {
  first_.reserve(kinds.size() + 1);
  first_.push_back(0);
  for (const WeightKind& kind : kinds)
    first_.push_back(first_.back() + (kind.storage == Storage::kMatrix
                                          ? static_cast<uint32_t>(kind.sources.size())
                                          : 0));
}

uint64_t AdapterWeights::bytes_of(const device::Device& device, std::span<const WeightKind> kinds,
                                  std::span<const PlacedModule> modules) {
  const size_t element = dtype_bytes(device.info().compute.activations);
  uint64_t bytes = table_bytes(kinds);
  for (const PlacedModule& placed : modules) {
    const WeightKind& kind = kinds[placed.kind];
    for (const size_t side : {size_t{kind.gemm.k}, columns_of(kind)})
      bytes += aligned(side * padded(placed.module.rank) * element, kAlignment);
  }
  return bytes;
}

Result<ContentId> AdapterWeights::content_of(const ContentKey& key,
                                             std::span<const WeightKind> kinds,
                                             const Adapter& adapter,
                                             std::span<const PlacedModule> modules) {
  ContentHash hash(key);
  for (const PlacedModule& placed : modules) {
    const WeightKind& kind = kinds[placed.kind];
    const AdapterModule& module = placed.module;
    const uint64_t n = columns_of(kind), k = kind.gemm.k;
    ITIF_ASSIGN(const LowRankMatrices matrices, adapter.read(module, n, k));
    for (const uint64_t number : {uint64_t{placed.kind}, uint64_t{placed.source}, n, k,
                                  uint64_t{module.rank}, std::bit_cast<uint64_t>(module.scale)})
      hash.add(number);
    hash.add(std::as_bytes(std::span(matrices.a)));
    hash.add(std::as_bytes(std::span(matrices.b)));
  }
  return hash.finish();
}

Result<std::unique_ptr<AdapterWeights>> AdapterWeights::load(
    device::Device& device, std::span<const WeightKind> kinds, const Adapter& adapter,
    std::span<const PlacedModule> modules) {
  const ModuleNumbers numbers(kinds);
  const size_t element = dtype_bytes(device.info().compute.activations);
  std::unique_ptr<AdapterWeights> weights(new AdapterWeights(kinds.size()));
  ITIF_ASSIGN(weights->memory_, device.allocate(bytes_of(device, kinds, modules)));
  std::vector<LowRankModule> table(numbers.count());
  std::byte* next = weights->memory_->data() + table_bytes(kinds);
  for (const PlacedModule& placed : modules) {
    const WeightKind& kind = kinds[placed.kind];
    const AdapterModule& module = placed.module;
    const size_t k = kind.gemm.k, n = columns_of(kind);
    const uint32_t rank = padded(module.rank);
    ITIF_ASSIGN(const LowRankMatrices matrices, adapter.read(module, n, k));
    LowRankModule& entry = table[numbers.first()[placed.kind] + placed.source];
    entry = {.down = next, .up = nullptr, .rank = rank};
    ITIF_TRY(upload(
        device, k, module.rank, rank,
        [&](size_t row, size_t column) { return double{matrices.a[column * k + row]}; }, module.a,
        next));
    next += aligned(k * rank * element, kAlignment);
    entry.up = next;
    ITIF_TRY(upload(
        device, rank, n, n,
        [&](size_t row, size_t column) {
          return row < module.rank ? matrices.b[column * module.rank + row] * module.scale : 0.0;
        },
        module.b, next));
    next += aligned(n * rank * element, kAlignment);
    weights->changed_[placed.kind] = 1;
    weights->shares_[placed.kind] +=
        static_cast<float>(static_cast<double>(rank * (k + n)) / (double{1} * kind.gemm.n * k));
    weights->max_rank_ = std::max(weights->max_rank_, rank);
  }
  static_assert(sizeof(LowRankModule) % sizeof(float) == 0);
  ITIF_TRY(device.upload({reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                          Shape{table.size() * sizeof(LowRankModule) / sizeof(float)}},
                         DType::kF32, weights->memory_->data()));
  return weights;
}

}  // namespace itif::model
