// Measures the costs of a backbone's GEMMs on a device. Planners use the tables A[length][batch]
// and B[length][count][size] (ITIF, section 4.1: "profiled during the preprocessing"; defined in
// plan/cost_tables.h). The GEMM scheduler uses each shape's cost for several tenants' ranges, run
// sequentially and concurrently; B is the latter.
//
// A GEMM's cost depends on its rows. It is measured for each power of two, from kMinRows to the
// workspace's rows, for one tenant and for calls with several tenants' weights. The call that is
// measured has one row less: most batches have rows that match no kernel's tile, and on the host a
// concurrent GEMM then copies its results. Length times batch gives the rows to look up. Shapes
// larger than the workspace are never planned; their costs continue the line of the last two. Those
// of more tenants than max_weight_bytes has room for are scaled in proportion.
//
// The cost of the other operators is the rest of a whole pass, measured at some lengths.
//
// A decoder's steps have one row per live beam, so they are measured from one row on. No planner
// lays out a decoder's batches: it has no A and B, and powers of four are enough.
//
// Measurements cycle through more weights than a cache holds, as a pass does. With few rows,
// reading the weights is the cost, and cached weights would hide it. If layers share weights, and a
// pass has few tenants for that reason (pass_limits.h), calls of so many tenants cycle through
// their weights only. Measurements also move through the rows of the workspace.
//
// Owned by the thread of the stream that it measures on. Takes one measurement at a time, so that
// requests are served in between.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "plan/cost_tables.h"
#include "runtime/group.h"

namespace itif::runtime {

struct ProfileOptions {
  uint32_t max_rows = 1024;     // of a pass
  uint32_t max_step_rows = 0;   // of a decoder's step; 0: not a decoder
  uint32_t max_length = 512;    // tokens of a request
  bool has_one_length = false;  // passes that are measured whole have requests of max_length only
  uint32_t max_requests = 256;  // of a batch
  uint32_t max_tenants = 64;
  uint32_t max_pass_tenants = 0;  // of a pass; 0: any number; see pass_limits.h
  uint32_t samples = 3;           // per measurement; the fastest counts, since noise only adds
  // Weights per shape; room for two tenants' is always taken.
  size_t max_weight_bytes = size_t{256} << 20;
  // Weights to cycle through, more than the device's cache; less if max_tenants' weights are less.
  size_t cache_bytes = size_t{64} << 20;
  // Measures the operators that are not GEMMs. Null: they are not measured.
  Group::SamplePass launch_pass = {};
};

// The options for a group's own limits. The group outlives the profiler.
ProfileOptions profile_options(Group& group);

class Profiler {
 public:
  static constexpr uint32_t kMinRows = 8;  // of a pass
  // Mini-batches of the calls that are measured, besides one; more are scaled. Three show what an
  // uneven division among threads costs.
  static constexpr uint32_t kMiniBatchCounts[] = {2, 3, 4, 8, 16};
  static constexpr uint32_t kMaxCount = 16;
  static constexpr uint32_t kPassRows = 512;  // of the passes that are measured whole

  // `device` and `clock` outlive the profiler. `backbone`: its name in the tables. REQUIRES: gemms
  // is not empty.
  Profiler(device::Device& device, const Clock& clock, const std::vector<backbone::GemmUse>& gemms,
           std::string backbone, const ProfileOptions& options);

  // Takes one measurement. Returns false if nothing is left to measure, or a measurement failed.
  bool step(device::Stream& stream) noexcept;
  double progress() const noexcept;  // 0 … 1
  // REQUIRES: step() has returned false. Errors: those of the device.
  Result<plan::CostTables> finish() const;

 private:
  // Costs by table of plan::kSharedGemmTables; 0: not measured on this device.
  using Costs = std::array<double, std::size(plan::kSharedGemmTables)>;
  static constexpr size_t kSequentialTable = 0, kConcurrentTable = 1, kPointersTable = 3;
  // A measured call: `count` mini-batches of `rows` rows each.
  struct Point {
    uint32_t count = 1;
    uint32_t rows = 0;
    Costs costs_ns = {};  // count 1: all equal
  };
  // All GEMMs of one shape, anywhere in the pass.
  struct Shape {
    device::GemmShape shape;
    uint32_t times = 0;
    uint32_t min_rows = 0, max_rows = 0;
    std::vector<Point> points;
  };
  static std::vector<uint32_t> powers_of_two(uint32_t least, uint32_t most);
  void add_use(const backbone::GemmUse& use);
  void make_points(Shape& shape) const;
  // A pass measured whole: requests of lengths_[length].
  struct WholePass {
    size_t length = 0;
    uint32_t num_requests = 0, num_tokens = 0;
    double ns = 0;
  };
  void add_whole_passes();
  Status measure(device::Stream& stream);
  Status measure(device::Stream& stream, WholePass& pass);
  Status measure_launches(device::Stream& stream);
  Status start_shape();
  Status measure(device::Stream& stream, Point& point, kernels::GroupedGemm args, size_t table);
  Result<double> fastest_ns(device::Stream& stream, const std::function<void()>& launch);
  bool is_planned() const { return options_.max_step_rows == 0; }
  uint32_t measured_rows(const Point& point) const;
  void next_ranges(const Point& point, bool is_uneven);
  uint32_t next_row(const Shape& shape, const Point& point);
  static Costs costs_of(const Shape& shape, uint32_t count, uint32_t rows);
  // Sums all shapes, in the modes in which planned calls of `count` mini-batches run.
  double gemms_ns(uint32_t count, uint32_t rows) const;
  void add_planners(plan::CostTables& tables) const;
  void add_others(plan::CostTables& tables) const;
  void add_shared(plan::CostTables& tables) const;

  device::Device& device_;
  const Clock& clock_;
  const std::string backbone_;
  const ProfileOptions options_;
  const std::vector<uint32_t> lengths_;  // of the tables
  std::vector<size_t> measured_tables_;  // of plan::kSharedGemmTables
  std::vector<Shape> shapes_;
  std::vector<WholePass> passes_;
  bool measures_launches_ = false;
  double launch_ns_ = 0;
  size_t num_points_ = 0, num_measured_ = 0;
  size_t shape_ = 0;  // being measured
  size_t point_ = 0;  // the shape's next point
  size_t pass_ = 0;   // the next whole pass
  Status status_;
  // State of the shape being measured.
  device::GemmHandle handle_;
  std::unique_ptr<device::Buffer> weights_, bias_, input_, output_;
  size_t weight_bytes_ = 0;  // of one slot
  uint32_t num_slots_ = 0;
  uint32_t next_slot_ = 0;
  uint32_t next_row_ = 0;
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::runtime
