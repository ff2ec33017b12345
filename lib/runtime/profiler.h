// Measures what a backbone's GEMMs cost on a device: the tables A[length][batch] and
// B[length][count][size] that planners choose by (ITIF, section 4.1: "profiled during the
// preprocessing"; plan/cost_tables.h says what they hold), and what each shape costs with several
// tenants' ranges in turn and at once, which the GEMM scheduler chooses by. B takes the cheaper.
//
// A GEMM costs what its rows cost: tables are measured by rows, powers of two from kLeastRows to the
// workspace's, alone and in calls of several tenants' weights; a length times a batch finds its rows
// among them. Shapes larger than the workspace are never planned; their costs are in proportion.
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
  uint32_t max_length = 512;    // tokens of a request
  uint32_t max_requests = 256;  // of a batch
  uint32_t max_tenants = 64;
  uint32_t samples = 3;  // of each measurement; the fastest counts: noise only adds
};

class Profiler {
 public:
  static constexpr uint32_t kLeastRows = 8;
  static constexpr uint32_t kMaxCount = 16;  // mini-batches of one call; more are in proportion

  // `device` and `clock` outlive it. `backbone`: the tables' name of it. REQUIRES: gemms is not empty.
  Profiler(device::Device& device, const Clock& clock, std::vector<backbone::GemmUse> gemms,
           std::string backbone, const ProfileOptions& options);

  // Takes one measurement; false: there is nothing left to measure, or it failed.
  bool step(device::Stream& stream) noexcept;
  double progress() const noexcept;  // 0 … 1
  // REQUIRES: step() has returned false. Errors: those of the device.
  Result<plan::CostTables> finish() const;

 private:
  struct Point {
    uint32_t count = 1;  // mini-batches
    uint32_t rows = 0;   // of each
    double ns = 0;       // of all GEMMs so far, each the cheaper way
  };
  // Of one GEMM at each point; at_once of points of one range is not measured.
  struct Shared {
    std::vector<double> in_turn_ns, at_once_ns;
  };
  Status measure(device::Stream& stream);
  Status start_shape();
  Result<double> fastest_ns(device::Stream& stream, const kernels::GroupedGemm& args);
  // A cost by point, at shapes of the tables.
  double cost_ns(const std::vector<double>& by_point, uint32_t count, uint32_t rows) const;
  void add_shared(plan::CostTables& tables) const;

  device::Device& device_;
  const Clock& clock_;
  const std::vector<backbone::GemmUse> gemms_;
  const std::string backbone_;
  const ProfileOptions options_;
  std::vector<Point> points_;
  std::vector<Shared> shared_;  // by GEMM
  size_t gemm_ = 0;             // being measured
  size_t point_ = 0;            // the next
  Status status_;
  // Of the shape being measured.
  device::GemmHandle handle_;
  std::unique_ptr<device::Buffer> weights_, bias_, input_, output_;
  size_t weight_bytes_ = 0;  // of one slot
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::runtime
