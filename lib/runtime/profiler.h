// Measures what a backbone's GEMMs cost on a device: the tables A[length][batch] and
// B[length][count][size] that planners choose by (ITIF, section 4.1: "profiled during the
// preprocessing"; plan/cost_tables.h says what they hold), and what each shape costs with several
// tenants' ranges in turn and at once, which the GEMM scheduler chooses by. B takes the cheaper.
//
// A GEMM costs what its rows cost: tables are measured by rows, powers of two from kLeastRows to the
// workspace's, alone and in calls of several tenants' weights; a length times a batch finds its rows
// among them. Shapes larger than the workspace are never planned; their costs are in proportion. So are
// those of more tenants than max_weight_bytes hold the weights of.
//
// A decoder's steps have a row a live beam, so theirs are measured from one row on. No planner lays out a
// decoder's batches: it has no A and B, and powers of four are enough.
//
// Weights are taken in turn from more than a cache holds, as in a pass they are: few rows cost what
// reading their weights costs, and weights that stayed in the cache would hide it.
//
// Owned by the thread of the stream that it measures on, a measurement at a time, so that requests are
// served in between.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "plan/cost_tables.h"

namespace itif::runtime {

struct ProfileOptions {
  uint32_t max_rows = 1024;     // of a pass
  uint32_t max_step_rows = 0;   // of a decoder's step; 0: not a decoder
  uint32_t max_length = 512;    // tokens of a request
  uint32_t max_requests = 256;  // of a batch
  uint32_t max_tenants = 64;
  uint32_t samples = 3;  // of each measurement; the fastest counts: noise only adds
  size_t max_weight_bytes = size_t{256} << 20;  // of a shape, but those of two tenants
  size_t cache_bytes = size_t{64} << 20;  // more than the device's, where tenants have as much
};

class Profiler {
 public:
  static constexpr uint32_t kLeastRows = 8;  // of a pass
  static constexpr uint32_t kMaxCount = 16;  // mini-batches of one call; more are in proportion

  // `device` and `clock` outlive it. `backbone`: the tables' name of it. REQUIRES: gemms is not empty.
  Profiler(device::Device& device, const Clock& clock, const std::vector<backbone::GemmUse>& gemms,
           std::string backbone, const ProfileOptions& options);

  // Takes one measurement; false: there is nothing left to measure, or it failed.
  bool step(device::Stream& stream) noexcept;
  double progress() const noexcept;  // 0 … 1
  // REQUIRES: step() has returned false. Errors: those of the device.
  Result<plan::CostTables> finish() const;

 private:
  // A point of a shape: so many mini-batches of so many rows each.
  struct Point {
    uint32_t count = 1;
    uint32_t rows = 0;
    double in_turn_ns = 0;
    double at_once_ns = 0;  // of one mini-batch: not measured, the same
  };
  // Every GEMM of one shape, wherever in the pass.
  struct Shape {
    device::GemmShape shape;
    uint32_t times = 0;
    uint32_t least_rows = 0, most_rows = 0;
    std::vector<Point> points;
  };
  void add_use(const backbone::GemmUse& use);
  void make_points(Shape& shape) const;
  Status measure(device::Stream& stream);
  Status start_shape();
  Result<double> fastest_ns(device::Stream& stream, kernels::GroupedGemm args);
  void next_ranges(const Point& point);
  struct Nearest {
    const Point* point = nullptr;
    double times = 1;  // that it is to be multiplied with
  };
  static Nearest nearest(const Shape& shape, uint32_t count, uint32_t rows);
  double gemms_ns(uint32_t count, uint32_t rows) const;  // of all, each the cheaper way
  void add_planners(plan::CostTables& tables) const;
  void add_shared(plan::CostTables& tables) const;

  device::Device& device_;
  const Clock& clock_;
  const std::string backbone_;
  const ProfileOptions options_;
  std::vector<Shape> shapes_;
  size_t num_points_ = 0, num_measured_ = 0;
  size_t shape_ = 0;  // being measured
  size_t point_ = 0;  // of it, the next
  Status status_;
  // Of the shape being measured.
  device::GemmHandle handle_;
  std::unique_ptr<device::Buffer> weights_, bias_, input_, output_;
  size_t weight_bytes_ = 0;  // of one slot
  uint32_t num_slots_ = 0;
  uint32_t next_slot_ = 0;
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::runtime
