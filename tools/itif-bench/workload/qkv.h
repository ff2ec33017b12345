// The operator "get Q, K, V" for several tenants: three GEMMs over the same rows, as the thesis
// launches them, or one GEMM.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace itif::bench {

struct QkvSizes {
  uint32_t hidden = 0, tenants = 0;
  uint32_t rows = 0;  // of each tenant
};

// The operands, rounded to the type: rows [rows, hidden] and weights [3 · hidden, hidden] of each
// tenant.
struct QkvNumbers {
  QkvSizes sizes;
  std::vector<std::vector<float>> a, weights;

  QkvNumbers(DType type, const QkvSizes& sizes);
  // The expected output row, [3 · hidden].
  std::vector<double> row_of(uint32_t tenant, uint32_t row) const;
};

// Rows and weights of consecutive tenants on a device, as 3 GEMMs (parts) or 1.
class Qkv {
 public:
  // REQUIRES: `device` outlives the result.
  static Result<Qkv> make(device::Device& device, const QkvNumbers& numbers, uint32_t parts,
                          uint32_t first_tenant, uint32_t tenants);

  const device::GemmShape& shape() const { return shape_; }
  std::span<const kernels::RowRange> ranges() const { return ranges_; }
  void launch(device::Stream& stream, std::span<const kernels::RowRange> ranges,
              kernels::GemmMode mode) const;
  // Checks a complete launch over all ranges. Errors: kInternal, with `name` and the element's
  // indices.
  Status check(const QkvNumbers& numbers, const std::string& name) const;

 private:
  device::Device* device_ = nullptr;
  uint32_t first_tenant_ = 0;
  device::GemmShape shape_;
  device::GemmHandle prepared_;
  size_t stride_ = 0;
  std::unique_ptr<device::Buffer> a_;
  std::vector<std::unique_ptr<device::Buffer>> weights_, out_;  // by part
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::bench
