#include "runtime/profiler.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace itif::runtime {
namespace {

constexpr size_t kSlotAlignment = 4096;

// 1, 2, 4, … and at last `most`'s power of two, so that nothing planned lies beyond the table.
std::vector<uint32_t> powers_of_two(uint32_t least, uint32_t most) {
  std::vector<uint32_t> powers;
  for (uint32_t power = least; power < most; power *= 2) powers.push_back(power);
  powers.push_back(std::max(least, std::bit_ceil(most)));
  return powers;
}

}  // namespace

Profiler::Profiler(device::Device& device, const Clock& clock, std::vector<backbone::GemmUse> gemms,
                   std::string backbone, const ProfileOptions& options)
    : device_(device),
      clock_(clock),
      gemms_(std::move(gemms)),
      backbone_(std::move(backbone)),
      options_(options) {
  CHECK(!gemms_.empty());
  const uint32_t most_rows = std::max(kLeastRows, std::bit_floor(options_.max_rows));
  const uint32_t most = std::min({kMaxCount, options_.max_tenants, most_rows / kLeastRows});
  for (uint32_t count = 1; count <= std::max(1u, most); count *= 2)
    for (uint32_t rows = kLeastRows; rows * count <= most_rows; rows *= 2)
      points_.push_back({.count = count, .rows = rows});
  shared_.resize(gemms_.size());
}

bool Profiler::step(device::Stream& stream) noexcept {
  if (gemm_ == gemms_.size() || !status_) return false;
  status_ = measure(stream);
  if (++point_ == points_.size()) {
    point_ = 0;
    ++gemm_;
    for (auto* buffer : {&weights_, &bias_, &input_, &output_}) buffer->reset();
    handle_ = nullptr;
  }
  return gemm_ < gemms_.size() && status_;
}

double Profiler::progress() const noexcept {
  const size_t done = gemm_ * points_.size() + point_;
  return static_cast<double>(done) / static_cast<double>(gemms_.size() * points_.size());
}

Status Profiler::start_shape() {
  const device::GemmShape& shape = gemms_[gemm_].shape;
  const uint32_t most_rows = points_.back().count * points_.back().rows;
  const uint32_t most_slots = points_.back().count;
  const size_t rows = size_t{most_rows} + device_.row_slack();
  const size_t element = dtype_bytes(device_.info().compute);
  ITIF_ASSIGN(handle_, device_.prepare(shape, most_rows));
  ITIF_ASSIGN(weight_bytes_, device_.packed_bytes(shape));
  weight_bytes_ = (weight_bytes_ + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  ITIF_ASSIGN(weights_, device_.allocate(most_slots * weight_bytes_));
  ITIF_ASSIGN(bias_, device_.allocate(shape.n * sizeof(float)));
  ITIF_ASSIGN(input_, device_.allocate(rows * shape.k * element));
  ITIF_ASSIGN(output_, device_.allocate(rows * shape.n * element));
  return {};
}

Status Profiler::measure(device::Stream& stream) {
  if (!weights_) ITIF_TRY(start_shape());
  const backbone::GemmUse& use = gemms_[gemm_];
  Point& point = points_[point_];
  ranges_.clear();
  for (uint32_t slot = 0; slot < point.count; ++slot)
    ranges_.push_back({.first_row = slot * point.rows, .num_rows = point.rows, .slot = slot});
  kernels::GroupedGemm args = {
      .a = input_->data(),
      .weights = {.base = weights_->data(), .stride_bytes = weight_bytes_},
      .bias = use.shape.has_bias ? kernels::Slab{bias_->data(), 0} : kernels::Slab{},
      .out = output_->data(),
      .n = use.shape.n,
      .k = use.shape.k,
      .ranges = ranges_,
      .prepared = handle_.get()};
  ITIF_ASSIGN(const double in_turn_ns, fastest_ns(stream, args));
  double at_once_ns = in_turn_ns;
  if (point.count > 1) {
    args.mode = kernels::GemmMode::kAtOnce;
    ITIF_ASSIGN(at_once_ns, fastest_ns(stream, args));
  }
  shared_[gemm_].in_turn_ns.push_back(in_turn_ns);
  shared_[gemm_].at_once_ns.push_back(at_once_ns);
  point.ns += std::min(in_turn_ns, at_once_ns) * use.times;
  return {};
}

Result<double> Profiler::fastest_ns(device::Stream& stream, const kernels::GroupedGemm& args) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t sample = 0; sample <= options_.samples; ++sample) {
    const uint64_t before_ns = clock_.now_ns();
    stream.gemm(args);
    ITIF_TRY(stream.synchronize());
    if (sample > 0) least_ns = std::min(least_ns, clock_.now_ns() - before_ns);  // 0: warm-up
  }
  return static_cast<double>(std::max<uint64_t>(1, least_ns));
}

// Rows are powers of two; those beyond the largest measured are in proportion to it.
double Profiler::cost_ns(const std::vector<double>& by_point, uint32_t count, uint32_t rows) const {
  size_t best = points_.size();
  for (size_t i = 0; i < points_.size(); ++i)
    if (points_[i].count == count && points_[i].rows <= std::max(rows, kLeastRows)) best = i;
  CHECK(best < points_.size());
  return by_point[best] * std::max(1.0, static_cast<double>(rows) / points_[best].rows);
}

void Profiler::add_shared(plan::CostTables& tables) const {
  if (points_.back().count < 2) return;
  for (const Point& point : points_) {
    if (point.count == 1) continue;
    if (tables.range_counts.empty() || tables.range_counts.back() < point.count)
      tables.range_counts.push_back(point.count);
    if (tables.range_rows.empty() || tables.range_rows.back() < point.rows)
      tables.range_rows.push_back(point.rows);
  }
  for (size_t g = 0; g < gemms_.size() && tables.shared_gemms.size() < plan::kMaxShapes; ++g) {
    const device::GemmShape& shape = gemms_[g].shape;
    const auto same = [&](const plan::SharedGemm& gemm) {
      return gemm.n == shape.n && gemm.k == shape.k;
    };
    if (std::ranges::any_of(tables.shared_gemms, same)) continue;
    plan::SharedGemm gemm{.n = shape.n, .k = shape.k, .in_turn_ns = {}, .at_once_ns = {}};
    for (const uint32_t count : tables.range_counts)
      for (const uint32_t rows : tables.range_rows) {
        gemm.in_turn_ns.push_back(cost_ns(shared_[g].in_turn_ns, count, rows));
        gemm.at_once_ns.push_back(cost_ns(shared_[g].at_once_ns, count, rows));
      }
    tables.shared_gemms.push_back(std::move(gemm));
  }
}

Result<plan::CostTables> Profiler::finish() const {
  if (!status_) return std::unexpected(status_.error());
  CHECK(gemm_ == gemms_.size());
  std::vector<double> all_ns;
  for (const Point& point : points_) all_ns.push_back(point.ns);
  plan::CostTables tables;
  tables.device = device_.info().description;
  tables.backbone = backbone_;
  tables.lengths = powers_of_two(kLeastRows, options_.max_length);
  tables.batches = powers_of_two(1, options_.max_requests);
  for (const uint32_t length : tables.lengths)
    for (const uint32_t batch : tables.batches)
      tables.gemm_ns.push_back(cost_ns(all_ns, 1, length * batch));
  for (uint32_t count = 2; count <= points_.back().count; count *= 2)
    tables.counts.push_back(count);
  if (!tables.counts.empty()) tables.sizes = tables.batches;
  for (const uint32_t length : tables.lengths)
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(cost_ns(all_ns, count, length * size));
  add_shared(tables);
  ITIF_TRY(plan::validate(tables));
  plan::make_monotone(tables);
  return tables;
}

}  // namespace itif::runtime
