#include "workload/qkv.h"

#include "base/random.h"
#include "workload/operator_checks.h"

namespace itif::bench {
namespace {

TensorView view(const float* values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values), DType::kF32, shape};
}

float rounded(DType type, float value) {
  switch (type) {
    case DType::kBF16: return bf16_to_f32(f32_to_bf16(value));
    case DType::kF16: return f16_to_f32(f32_to_f16(value));
    default: return value;
  }
}

}  // namespace

// Reuses one block of random numbers from different offsets, because drawing all numbers would take
// long.
QkvNumbers::QkvNumbers(DType type, const QkvSizes& sizes) : sizes(sizes) {
  Random random(5);
  std::vector<float> block((1 << 20) + 7);
  for (float& v : block) v = static_cast<float>(random.uniform() - 0.5);
  size_t next = 0;
  const auto draw = [&](size_t count, float scale) {
    std::vector<float> values(count);
    for (float& v : values) {
      v = block[next++ % block.size()] * scale;
      v = rounded(type, v);
    }
    return values;
  };
  for (uint32_t tenant = 0; tenant < sizes.tenants; ++tenant) {
    a.push_back(draw(size_t{sizes.rows} * sizes.hidden, 4));
    weights.push_back(draw(size_t{3} * sizes.hidden * sizes.hidden, 0.1f));
  }
}

std::vector<double> QkvNumbers::row_of(uint32_t tenant, uint32_t row) const {
  const size_t hidden = sizes.hidden;
  std::vector<double> out(3 * hidden);
  for (size_t n = 0; n < out.size(); ++n)
    for (size_t i = 0; i < hidden; ++i)
      out[n] += double{a[tenant][row * hidden + i]} * weights[tenant][n * hidden + i];
  return out;
}

Result<Qkv> Qkv::make(device::Device& device, const QkvNumbers& numbers, uint32_t parts,
                      uint32_t first_tenant, uint32_t tenants) {
  const uint32_t hidden = numbers.sizes.hidden, tenant_rows = numbers.sizes.rows;
  Qkv qkv;
  qkv.device_ = &device;
  qkv.first_tenant_ = first_tenant;
  qkv.shape_ = {.n = 3 * hidden / parts, .k = hidden, .has_bias = false};
  const DType type = device.info().compute.activations;
  const size_t rows = size_t{tenants} * tenant_rows, held = rows + device.row_slack();
  ITIF_ASSIGN(qkv.prepared_, device.prepare(qkv.shape_, static_cast<uint32_t>(rows)));
  ITIF_ASSIGN(const size_t packed, device.packed_bytes(qkv.shape_));
  qkv.stride_ = (packed + 4095) / 4096 * 4096;
  ITIF_ASSIGN(qkv.a_, device.allocate(held * hidden * dtype_bytes(type)));
  for (uint32_t part = 0; part < parts; ++part) {
    ITIF_ASSIGN(auto weights, device.allocate(tenants * qkv.stride_));
    ITIF_ASSIGN(auto out, device.allocate(held * qkv.shape_.n * dtype_bytes(type)));
    for (uint32_t slot = 0; slot < tenants; ++slot) {
      const TensorView weight =
          view(numbers.weights[first_tenant + slot].data() + size_t{part} * qkv.shape_.n * hidden,
               {qkv.shape_.n, hidden});
      ITIF_TRY(device.pack(qkv.shape_, {&weight, 1}, weights->data() + slot * qkv.stride_));
    }
    qkv.weights_.push_back(std::move(weights));
    qkv.out_.push_back(std::move(out));
  }
  for (uint32_t slot = 0; slot < tenants; ++slot) {
    qkv.ranges_.push_back({slot * tenant_rows, tenant_rows, slot});
    ITIF_TRY(
        device.upload(view(numbers.a[first_tenant + slot].data(), {tenant_rows, hidden}), type,
                      qkv.a_->data() + size_t{slot} * tenant_rows * hidden * dtype_bytes(type)));
  }
  return qkv;
}

void Qkv::launch(device::Stream& stream, std::span<const kernels::RowRange> ranges,
                 kernels::GemmMode mode) const {
  kernels::GroupedGemm gemms[3];
  for (size_t part = 0; part < out_.size(); ++part)
    gemms[part] = {.a = a_->data(),
                   .weights = {weights_[part]->data(), stride_},
                   .bias = {},
                   .out = out_[part]->data(),
                   .n = shape_.n,
                   .k = shape_.k,
                   .ranges = ranges,
                   .schedule = mode,
                   .prepared = prepared_.get()};
  stream.launch(kernels::GroupedGemms{std::span(gemms).first(out_.size())});
}

Status Qkv::check(const QkvNumbers& numbers, const std::string& name) const {
  const DType type = device_->info().compute.activations;
  const uint32_t tenant_rows = numbers.sizes.rows;
  const size_t rows = ranges_.size() * tenant_rows;
  for (size_t part = 0; part < out_.size(); ++part) {
    const auto got = read_values(*device_, out_[part]->data(), rows * shape_.n, type);
    ITIF_TRY(check_rows(name, got, static_cast<uint32_t>(rows), shape_.n,
                        type == DType::kF32 ? 1e-4 : 0.01, [&](uint32_t row) {
                          const auto all =
                              numbers.row_of(first_tenant_ + row / tenant_rows, row % tenant_rows);
                          const auto begin = all.begin() + static_cast<ptrdiff_t>(part) * shape_.n;
                          return std::vector<double>(begin, begin + shape_.n);
                        }));
  }
  return {};
}

}  // namespace itif::bench
