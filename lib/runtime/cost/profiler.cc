#include "runtime/cost/profiler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "plan/planner.h"
#include "runtime/cost/pass_tenants.h"

namespace itif::runtime {
namespace {

constexpr size_t kSlotAlignment = 4096;

// Mini-batches of the calls that are measured, besides one. Three show what an uneven division
// among threads costs.
constexpr uint32_t kMiniBatchCounts[] = {2, 3, 4, 8, 16};
static_assert(std::end(kMiniBatchCounts)[-1] == Profiler::kMaxCount);

// Returns `least` times 1, 2, 4, …, up to at least `most`, so that no plan lies beyond the table.
std::vector<uint32_t> powers_of_two(uint32_t least, uint32_t most) {
  std::vector<uint32_t> powers;
  for (uint32_t power = least; power < most; power *= 2) powers.push_back(power);
  powers.push_back(std::max(least, std::bit_ceil(most)));
  return powers;
}

}  // namespace

ProfileOptions profile_options(Group& group) {
  const GroupOptions& options = group.options();
  Group::ProfiledWork work = group.profiled_work();
  return {.max_rows = options.max_tokens,
          .max_step_rows = work.max_step_rows,
          .max_length = group.spec().max_tokens(),
          .max_requests = std::min(options.max_requests, plan::kMaxPaddedRequests),
          .max_tenants = options.max_tenants,
          .launch_pass = std::move(work.launch_pass)};
}

Profiler::Profiler(device::Device& device, const Clock& clock,
                   const std::vector<backbone::GemmUse>& gemms, std::string backbone,
                   const ProfileOptions& options)
    : device_(device),
      clock_(clock),
      backbone_(std::move(backbone)),
      options_(options),
      lengths_(powers_of_two(kMinRows, options.max_length)),
      max_pass_tenants_(max_pass_tenants(device.info(), gemms)) {
  CHECK(!gemms.empty());
  for (const backbone::GemmUse& use : gemms) add_use(use);
  for (Shape& shape : shapes_) {
    make_points(shape);
    num_points_ += shape.points.size();
  }
  if (options_.launch_pass && is_planned()) add_whole_passes();
  num_points_ += passes_.size();
}

// Three lengths are enough: the cost of a row grows linearly with its request's length (attention).
void Profiler::add_whole_passes() {
  const size_t last = lengths_.size() - 1;
  for (const size_t length : {size_t{0}, last / 2, last}) {
    if (!passes_.empty() && passes_.back().length == length) continue;
    const uint32_t num_tokens =
        std::min({lengths_[length], options_.max_length, options_.max_rows});
    const uint32_t rows = std::min(options_.max_rows, std::max(num_tokens, kPassRows));
    passes_.push_back({.length = length,
                       .num_requests = std::min(options_.max_requests, rows / num_tokens),
                       .num_tokens = num_tokens});
  }
}

void Profiler::add_use(const backbone::GemmUse& use) {
  const device::GemmShape& gemm = use.shape;
  auto same = std::ranges::find_if(shapes_, [&](const Shape& shape) {
    const device::GemmShape& known = shape.shape;
    return known.n == gemm.n && known.k == gemm.k && known.has_bias == gemm.has_bias &&
           known.f32_out == gemm.f32_out;
  });
  const uint32_t least = use.in_step ? 1 : kMinRows;
  const uint32_t most =
      std::max(least, std::bit_floor(use.in_step ? options_.max_step_rows : options_.max_rows));
  if (same == shapes_.end())
    same = shapes_.insert(shapes_.end(), {.shape = gemm, .min_rows = least, .points = {}});
  same->times += use.times;
  same->min_rows = std::min(same->min_rows, least);
  same->max_rows = std::max(same->max_rows, most);
}

void Profiler::make_points(Shape& shape) const {
  const size_t weight_bytes =
      size_t{shape.shape.n} * shape.shape.k * dtype_bytes(device_.info().compute.weights);
  const auto fitting = static_cast<uint32_t>(
      std::min<size_t>(kMaxCount, std::max<size_t>(2, options_.max_weight_bytes / weight_bytes)));
  const uint32_t most = std::min({fitting, options_.max_tenants, shape.max_rows / shape.min_rows});
  // Only plans are priced, and need the cost of a GEMM with one range.
  const auto add = [&](uint32_t count) {
    for (uint32_t rows = shape.min_rows; rows * count <= shape.max_rows;
         rows *= is_planned() ? 2 : 4)
      shape.points.push_back({.count = count, .rows = rows});
  };
  if (is_planned()) add(1);
  for (const uint32_t count : kMiniBatchCounts)
    if (count <= most) add(count);
}

uint32_t Profiler::measured_rows(const Point& point) const {
  return is_planned() && point.rows > 1 ? point.rows - 1 : point.rows;
}

bool Profiler::step(device::Stream& stream) noexcept {
  while (shape_ < shapes_.size() && shapes_[shape_].points.empty()) ++shape_;
  if (num_measured_ == num_points_ || !status_) return false;
  if (shape_ == shapes_.size()) {
    status_ = measure(stream, passes_[pass_++]);
    ++num_measured_;
    return num_measured_ < num_points_ && status_;
  }
  status_ = measure(stream);
  ++num_measured_;
  if (++point_ == shapes_[shape_].points.size()) {
    point_ = 0;
    ++shape_;
    for (auto* buffer : {&weights_, &bias_, &input_, &output_}) buffer->reset();
    handle_ = nullptr;
  }
  return num_measured_ < num_points_ && status_;
}

double Profiler::progress() const noexcept {
  return num_points_ == 0 ? 1
                          : static_cast<double>(num_measured_) / static_cast<double>(num_points_);
}

Status Profiler::start_shape() {
  const device::GemmShape& shape = shapes_[shape_].shape;
  const uint32_t max_rows = shapes_[shape_].max_rows;
  const size_t rows = size_t{max_rows} + device_.row_slack();
  const DType type = device_.info().compute.activations;
  ITIF_ASSIGN(handle_, device_.prepare(shape, max_rows));
  ITIF_ASSIGN(weight_bytes_, device_.packed_bytes(shape));
  weight_bytes_ = (weight_bytes_ + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  num_slots_ = std::max(shapes_[shape_].points.back().count,
                        static_cast<uint32_t>(std::min<size_t>(
                            options_.max_tenants, options_.cache_bytes / weight_bytes_)));
  next_slot_ = 0;
  ITIF_ASSIGN(weights_, device_.allocate(num_slots_ * weight_bytes_));
  ITIF_ASSIGN(bias_, device_.allocate(shape.n * sizeof(float)));
  ITIF_ASSIGN(input_, device_.allocate(rows * shape.k * dtype_bytes(type)));
  ITIF_ASSIGN(output_,
              device_.allocate(rows * shape.n * dtype_bytes(shape.f32_out ? DType::kF32 : type)));
  return {};
}

Status Profiler::measure(device::Stream& stream) {
  if (!weights_) ITIF_TRY(start_shape());
  const device::GemmShape& shape = shapes_[shape_].shape;
  const ComputeTypes& types = device_.info().compute;
  Point& point = shapes_[shape_].points[point_];
  kernels::GroupedGemm args = {
      .a = input_->data(),
      .weights = {.base = weights_->data(), .stride_bytes = weight_bytes_},
      .bias = shape.has_bias ? kernels::Slab{bias_->data(), 0} : kernels::Slab{},
      .out = output_->data(),
      .n = shape.n,
      .k = shape.k,
      .ranges = {},
      .prepared = handle_.get(),
      .f32_out = shape.f32_out};
  const auto launch = [&] {
    next_ranges(point);
    const size_t first_row = next_row(shapes_[shape_], point);
    args.a = input_->data() + first_row * shape.k * dtype_bytes(types.activations);
    args.out = output_->data() +
               first_row * shape.n * dtype_bytes(shape.f32_out ? DType::kF32 : types.activations);
    args.ranges = ranges_;
    stream.launch(args);
  };
  ITIF_ASSIGN(point.sequential_ns, fastest_ns(stream, launch));
  point.concurrent_ns = point.sequential_ns;
  if (point.count == 1) return {};
  args.schedule = kernels::GemmMode::kConcurrent;
  ITIF_ASSIGN(point.concurrent_ns, fastest_ns(stream, launch));
  return {};
}

Status Profiler::measure(device::Stream& stream, WholePass& pass) {
  ITIF_ASSIGN(pass.ns, fastest_ns(stream, [&] {
                options_.launch_pass(stream, pass.num_requests, pass.num_tokens);
              }));
  return {};
}

// Moves through the rows of the workspace, so that a call finds its rows where a pass would: not in
// the nearest cache, where the last sample left them. A GPU keeps its addresses, which are part of
// the keys of CUDA graphs.
uint32_t Profiler::next_row(const Shape& shape, const Point& point) {
  const uint32_t rows = point.count * point.rows;
  if (device_.info().num_threads == 0 || next_row_ + rows > shape.max_rows) next_row_ = 0;
  return std::exchange(next_row_, next_row_ + rows);
}

void Profiler::next_ranges(const Point& point) {
  ranges_.clear();
  const bool fits_pass = point.count <= max_pass_tenants_;
  const uint32_t num_slots = fits_pass ? std::min(max_pass_tenants_, num_slots_) : num_slots_;
  for (uint32_t i = 0; i < point.count; ++i) {
    next_slot_ %= num_slots;
    ranges_.push_back({.first_row = i * measured_rows(point),
                       .num_rows = measured_rows(point),
                       .slot = next_slot_++});
  }
}

Result<double> Profiler::fastest_ns(device::Stream& stream, const std::function<void()>& launch) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t sample = 0; sample <= options_.samples; ++sample) {
    const uint64_t before_ns = clock_.now_ns();
    launch();
    // Device time is preferred: the overhead of waiting for one GEMM is not part of a batch of
    // many.
    const device::Stream::Completion done = stream.wait(stream.record());
    if (!done.status) return std::unexpected(done.status.error());
    if (sample == 0) continue;  // warm-up
    least_ns =
        std::min(least_ns, done.device_ns != 0 ? done.device_ns : clock_.now_ns() - before_ns);
  }
  return static_cast<double>(std::max<uint64_t>(1, least_ns));
}

// Costs of a call of `count` mini-batches of `rows` rows. Beyond the measured rows, they continue
// the line of the last two points: a call has a fixed cost, which does not grow with its rows.
// REQUIRES: a point of at most `count` mini-batches was measured.
Profiler::Costs Profiler::costs_of(const Shape& shape, uint32_t count, uint32_t rows) {
  const Point *best = nullptr, *before = nullptr;
  for (const Point& point : shape.points) {  // ascending
    if (point.count > count || point.rows > std::max(rows, shape.min_rows)) continue;
    before = best != nullptr && best->count == point.count ? best : nullptr;
    best = &point;
  }
  CHECK(best != nullptr);
  const double times = static_cast<double>(count) / best->count;
  const double beyond = rows > best->rows ? rows - best->rows : 0;
  const auto at = [&](double Point::*cost) {
    const double ns = best->*cost, in_proportion = ns / best->rows;
    double per_row = in_proportion;
    if (before != nullptr)
      per_row = std::clamp((ns - before->*cost) / (best->rows - before->rows), 0.0, in_proportion);
    return times * (ns + beyond * per_row);
  };
  return {at(&Point::sequential_ns), at(&Point::concurrent_ns)};
}

double Profiler::gemms_ns(uint32_t count, uint32_t rows) const {
  double ns = 0;
  for (const Shape& shape : shapes_) {
    const Costs costs = costs_of(shape, count, rows);
    ns += (count == 1 ? costs.sequential_ns : costs.concurrent_ns) * shape.times;
  }
  return ns;
}

void Profiler::add_planners(plan::CostTables& tables) const {
  tables.lengths = lengths_;
  tables.batches = powers_of_two(1, options_.max_requests);
  for (const uint32_t length : tables.lengths)
    for (const uint32_t batch : tables.batches)
      tables.gemm_ns.push_back(gemms_ns(1, length * batch));
  for (const uint32_t count : kMiniBatchCounts)
    if (std::ranges::any_of(shapes_,
                            [&](const Shape& shape) { return shape.points.back().count >= count; }))
      tables.counts.push_back(count);
  if (!tables.counts.empty()) tables.sizes = tables.batches;
  for (const uint32_t length : tables.lengths)
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(gemms_ns(count, length * size));
}

// A pass's time without its GEMMs, per row. At least a thousandth of the pass: noise may hide the
// rest.
void Profiler::add_others(plan::CostTables& tables) const {
  if (passes_.empty()) return;
  std::vector<double> row_ns;  // by pass
  for (const WholePass& pass : passes_) {
    const uint32_t rows = pass.num_requests * pass.num_tokens;
    row_ns.push_back(std::max(pass.ns - gemms_ns(1, rows), pass.ns / 1000) / rows);
  }
  size_t next = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    while (next + 1 < passes_.size() && passes_[next].length < i) ++next;
    if (passes_[next].length == i) {
      tables.other_row_ns.push_back(row_ns[next]);
      continue;
    }
    const double from = lengths_[passes_[next - 1].length], to = lengths_[passes_[next].length];
    tables.other_row_ns.push_back(
        std::lerp(row_ns[next - 1], row_ns[next], (lengths_[i] - from) / (to - from)));
  }
}

void Profiler::add_shared(plan::CostTables& tables) const {
  std::set<uint32_t> counts, rows;
  for (const Shape& shape : shapes_)
    for (const Point& point : shape.points) {
      counts.insert(point.count);
      rows.insert(measured_rows(point));
    }
  if (counts.empty()) return;
  tables.range_counts.assign(counts.begin(), counts.end());
  tables.range_rows.assign(rows.begin(), rows.end());
  for (const Shape& shape : shapes_) {
    const auto same = [&](const plan::SharedGemm& gemm) {
      return gemm.n == shape.shape.n && gemm.k == shape.shape.k;
    };
    if (const auto known = std::ranges::find_if(tables.shared_gemms, same);
        known != tables.shared_gemms.end()) {
      known->times += shape.times;
      continue;
    }
    if (tables.shared_gemms.size() == plan::kMaxShapes || shape.points.empty()) continue;
    plan::SharedGemm gemm{.n = shape.shape.n,
                          .k = shape.shape.k,
                          .sequential_ns = {},
                          .concurrent_ns = {},
                          .times = shape.times};
    for (const uint32_t count : counts)
      for (const uint32_t size : rows) {
        const Costs costs = costs_of(shape, count, size + (is_planned() && size > 1));
        gemm.sequential_ns.push_back(costs.sequential_ns);
        gemm.concurrent_ns.push_back(costs.concurrent_ns);
      }
    tables.shared_gemms.push_back(std::move(gemm));
  }
}

Result<plan::CostTables> Profiler::finish() const {
  if (!status_) return std::unexpected(status_.error());
  CHECK(num_measured_ == num_points_);
  plan::CostTables tables;
  tables.device = device_.info().description;
  tables.backbone = backbone_;
  if (is_planned()) {
    add_planners(tables);
    add_others(tables);
  }
  add_shared(tables);
  ITIF_TRY(plan::validate(tables));
  if (!tables.lengths.empty()) plan::make_monotone(tables);
  return tables;
}

}  // namespace itif::runtime
