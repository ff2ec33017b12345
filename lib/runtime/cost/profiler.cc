#include "runtime/cost/profiler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "device/turn_taking.h"
#include "plan/planner.h"

namespace itif::runtime {
namespace {

constexpr size_t kSlotAlignment = 4096;

// The call that each of plan::kSharedGemmTables holds, in that order.
struct MeasuredCall {
  kernels::GemmMode mode;
  bool is_uneven;
};
constexpr MeasuredCall kMeasuredCalls[] = {
    {kernels::GemmMode::kSequential, false}, {kernels::GemmMode::kConcurrent, false},
    {kernels::GemmMode::kStreams, false},    {kernels::GemmMode::kPointers, false},
    {kernels::GemmMode::kSequential, true},  {kernels::GemmMode::kStreams, true},
    {kernels::GemmMode::kConcurrent, true}};
static_assert(std::size(kMeasuredCalls) == std::size(plan::kSharedGemmTables));

bool has_mode(const device::DeviceInfo& device, kernels::GemmMode mode) {
  return std::ranges::find(device.gemm_modes, mode) != device.gemm_modes.end();
}

// A CPU's costs of ranges of unequal rows follow from its partition of those (range_costs.h).
std::vector<size_t> measured_tables(const device::DeviceInfo& device) {
  std::vector<size_t> tables;
  for (size_t t = 0; t < std::size(kMeasuredCalls); ++t)
    if (has_mode(device, kMeasuredCalls[t].mode) &&
        (device.num_threads == 0 || !kMeasuredCalls[t].is_uneven))
      tables.push_back(t);
  return tables;
}

}  // namespace

ProfileOptions profile_options(Group& group) {
  const GroupOptions& options = group.options();
  Group::ProfiledWork work = group.profiled_work();
  return {.max_rows = options.max_tokens,
          .max_step_rows = work.max_step_rows,
          .max_length = group.spec().max_tokens(),
          .has_one_length = work.has_one_length,
          .max_requests = std::min(options.max_requests, plan::kMaxPaddedRequests),
          .max_tenants = options.max_tenants,
          .max_pass_tenants = work.max_pass_tenants,
          .launch_pass = std::move(work.launch_pass)};
}

// Returns `least` times 1, 2, 4, …, up to at least `most`, so that no plan lies beyond the table.
std::vector<uint32_t> Profiler::powers_of_two(uint32_t least, uint32_t most) {
  std::vector<uint32_t> powers;
  for (uint32_t power = least; power < most; power *= 2) powers.push_back(power);
  powers.push_back(std::max(least, std::bit_ceil(most)));
  return powers;
}

Profiler::Profiler(device::Device& device, const Clock& clock,
                   const std::vector<backbone::GemmUse>& gemms, std::string backbone,
                   const ProfileOptions& options)
    : device_(device),
      clock_(clock),
      backbone_(std::move(backbone)),
      options_(options),
      lengths_(powers_of_two(kMinRows, options.max_length)),
      measured_tables_(measured_tables(device.info())) {
  CHECK(!gemms.empty());
  for (const backbone::GemmUse& use : gemms) add_use(use);
  for (Shape& shape : shapes_) {
    make_points(shape);
    num_points_ += shape.points.size();
  }
  if (options_.launch_pass && is_planned()) add_whole_passes();
  num_points_ += passes_.size();
  measures_launches_ = !passes_.empty() && device.info().max_bucket_rows > 0;
  if (measures_launches_) ++num_points_;
}

// Three lengths are enough: the cost of a row grows linearly with its request's length (attention).
void Profiler::add_whole_passes() {
  const size_t last = lengths_.size() - 1;
  for (const size_t length : {size_t{0}, last / 2, last}) {
    if (options_.has_one_length && length != last) continue;
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
    status_ = pass_ < passes_.size() ? measure(stream, passes_[pass_++]) : measure_launches(stream);
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
  Point& point = shapes_[shape_].points[point_];
  const kernels::GroupedGemm args = {
      .a = input_->data(),
      .weights = {.base = weights_->data(), .stride_bytes = weight_bytes_},
      .bias = shape.has_bias ? kernels::Slab{bias_->data(), 0} : kernels::Slab{},
      .out = output_->data(),
      .n = shape.n,
      .k = shape.k,
      .activation = shape.activation,
      .ranges = {},
      .prepared = handle_.get(),
      .f32_out = shape.f32_out};
  for (const size_t table : measured_tables_) {
    if (point.count == 1 && table != kSequentialTable)
      point.costs_ns[table] = point.costs_ns[kSequentialTable];
    else
      ITIF_TRY(measure(stream, point, args, table));
  }
  return {};
}

Status Profiler::measure(device::Stream& stream, Point& point, kernels::GroupedGemm args,
                         size_t table) {
  const MeasuredCall& call = kMeasuredCalls[table];
  const DType type = device_.info().compute.activations;
  const size_t a_bytes = args.k * dtype_bytes(type);
  const size_t out_bytes = args.n * dtype_bytes(args.f32_out ? DType::kF32 : type);
  args.schedule = call.mode;
  ITIF_ASSIGN(point.costs_ns[table], fastest_ns(stream, [&] {
                next_ranges(point, call.is_uneven);
                const size_t first_row = next_row(shapes_[shape_], point);
                args.a = input_->data() + first_row * a_bytes;
                args.out = output_->data() + first_row * out_bytes;
                args.ranges = ranges_;
                stream.launch(args);
              }));
  return {};
}

Status Profiler::measure(device::Stream& stream, WholePass& pass) {
  ITIF_ASSIGN(pass.ns, fastest_ns(stream, [&] {
                options_.launch_pass(stream, pass.num_requests, pass.num_tokens);
              }));
  return {};
}

Status Profiler::measure_launches(device::Stream& stream) {
  stream.use_graphs(false);
  const auto ns =
      fastest_ns(stream, [&] { options_.launch_pass(stream, 1, passes_.front().num_tokens); });
  stream.use_graphs(true);
  if (!ns) return std::unexpected(ns.error());
  launch_ns_ = *ns;
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

void Profiler::next_ranges(const Point& point, bool is_uneven) {
  ranges_.clear();
  const bool fits_pass = point.count <= options_.max_pass_tenants;
  const uint32_t num_slots =
      fits_pass ? std::min(options_.max_pass_tenants, num_slots_) : num_slots_;
  // A strided call needs slots that ascend.
  const bool is_strided = has_mode(device_.info(), kernels::GemmMode::kPointers);
  if (is_strided && next_slot_ + point.count > num_slots) next_slot_ = 0;
  const uint32_t rows = measured_rows(point), half = std::max(1u, rows / 2);
  uint32_t first_row = 0;
  for (uint32_t i = 0; i < point.count; ++i) {
    next_slot_ %= num_slots;
    const bool is_last = i + 1 == point.count;
    const uint32_t num_rows = !is_uneven || (is_last && i % 2 == 0) ? rows
                              : i % 2 == 0                          ? half
                                                                    : 2 * rows - half;
    ranges_.push_back({.first_row = first_row, .num_rows = num_rows, .slot = next_slot_++});
    first_row += num_rows;
  }
}

Result<double> Profiler::fastest_ns(device::Stream& stream, const std::function<void()>& launch) {
  // Other streams that compute on the same CPUs have their turns meanwhile.
  const auto* turns = dynamic_cast<const device::TurnTaking*>(&stream);
  const auto waited_ns = [turns] { return turns == nullptr ? 0 : turns->turn_wait_ns(); };
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t sample = 0; sample <= options_.samples; ++sample) {
    const uint64_t before_ns = clock_.now_ns(), waited_before_ns = waited_ns();
    launch();
    // Device time is preferred: the overhead of waiting for one GEMM is not part of a batch of
    // many.
    const device::Stream::Completion done = stream.wait(stream.record());
    if (!done.status) return std::unexpected(done.status.error());
    if (sample == 0) continue;  // warm-up
    const uint64_t ns = done.device_ns != 0 ? done.device_ns : clock_.now_ns() - before_ns;
    least_ns = std::min(least_ns, ns - std::min(ns, waited_ns() - waited_before_ns));
  }
  return static_cast<double>(std::max<uint64_t>(1, least_ns));
}

}  // namespace itif::runtime
