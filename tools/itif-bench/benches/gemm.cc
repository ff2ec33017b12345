// itif-bench gemm: the rate of oneDNN or cuBLAS on this machine, and the share of it that a GEMM
// with bias reaches through Device and Stream.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "benches.h"
#include "limits/bare.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

struct Size {
  uint32_t rows, k, n;
};
constexpr Size kSizes[] = {{1, 768, 768},    {8, 768, 768},     {32, 768, 768},
                           {128, 768, 768},  {512, 768, 768},   {128, 768, 2304},
                           {128, 768, 3072}, {128, 3072, 768},  {272, 768, 2304},
                           {464, 768, 2304}, {1008, 768, 2304}, {2048, 768, 3072}};

// A GEMM on the device and its buffers.
struct DeviceGemm {
  std::unique_ptr<device::Buffer> a, weights, bias, out;
  device::GemmHandle prepared;
  kernels::RowRange range;
  Size size{};
  std::vector<float> host_weights, host_bias, host_a;

  kernels::GroupedGemm arguments() const {
    return {.a = a->data(),
            .weights = {.base = weights->data(), .stride_bytes = 0},
            .bias = {.base = bias->data(), .stride_bytes = 0},
            .out = out->data(),
            .n = size.n,
            .k = size.k,
            .ranges = {&range, 1},
            .prepared = prepared.get()};
  }
};

std::vector<float> random_floats(size_t count, double scale, Random& random) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>((random.uniform() - 0.5) * scale);
  return values;
}

TensorView view_of(const std::vector<float>& values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, shape};
}

Result<DeviceGemm> make_gemm(device::Device& device, const Size& size) {
  Random random(1);
  DeviceGemm gemm;
  gemm.size = size;
  gemm.range = {.first_row = 0, .num_rows = size.rows, .slot = 0};
  gemm.host_a = random_floats(size_t{size.rows} * size.k, 2.0, random);
  gemm.host_weights = random_floats(size_t{size.n} * size.k, 2.0 / std::sqrt(size.k), random);
  gemm.host_bias = random_floats(size.n, 2.0, random);
  const DType type = device.info().compute.activations;
  const size_t element = dtype_bytes(type), slack = device.row_slack();
  const device::GemmShape shape{.n = size.n, .k = size.k};
  ITIF_ASSIGN(gemm.a, device.allocate((size.rows + slack) * size.k * element));
  ITIF_ASSIGN(gemm.out, device.allocate((size.rows + slack) * size.n * element));
  ITIF_ASSIGN(gemm.bias, device.allocate(size.n * sizeof(float)));
  ITIF_ASSIGN(const size_t packed_bytes, device.packed_bytes(shape));
  ITIF_ASSIGN(gemm.weights, device.allocate(packed_bytes));
  ITIF_TRY(device.upload(view_of(gemm.host_a, {size.rows, size.k}), type, gemm.a->data()));
  ITIF_TRY(device.upload(view_of(gemm.host_bias, {size.n}), DType::kF32, gemm.bias->data()));
  const TensorView weights = view_of(gemm.host_weights, {size.n, size.k});
  ITIF_TRY(device.pack(shape, {&weights, 1}, gemm.weights->data()));
  const TensorView bias = view_of(gemm.host_bias, {size.n});
  ITIF_TRY(device.pack_bias(shape, {&bias, 1}, gemm.weights->data()));
  ITIF_ASSIGN(gemm.prepared, device.prepare(shape, size.rows));
  return gemm;
}

// Compares some elements of the result with sums in double precision.
Status check(device::Device& device, device::Stream& stream, const DeviceGemm& gemm) {
  stream.launch(gemm.arguments());
  const DType type = device.info().compute.activations;
  const Size& size = gemm.size;
  std::vector<std::byte> raw(size_t{size.rows} * size.n * dtype_bytes(type));
  stream.copy_to_host(gemm.out->data(), raw.size(), raw.data());
  ITIF_TRY(stream.synchronize());
  const TensorView out{raw.data(), type, {size.rows, size.n}};
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const uint64_t row = random.below(size.rows), column = random.below(size.n);
    double expected = gemm.host_bias[column];
    for (uint64_t j = 0; j < size.k; ++j)
      expected += double{gemm.host_a[row * size.k + j]} * gemm.host_weights[column * size.k + j];
    const double tolerance = type == DType::kF32 ? 1e-5 : 0.03;
    const double error = std::abs(out.at(row * size.n + column) - expected);
    if (!(error <= tolerance * std::max(1.0, std::abs(expected))))
      return fail(Code::kInternal, fmt::format("{} x {} x {}: element [{}, {}] is off by {}",
                                               size.rows, size.k, size.n, row, column, error));
  }
  return {};
}

}  // namespace

Status bench_gemm(const BenchOptions& options, Report& report) {
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        ITIF_ASSIGN(const auto stream, device.make_stream());
        stream->attach_thread();
        for (const Size& size : kSizes) {
          const std::string name = fmt::format("{}x{}x{}", size.rows, size.k, size.n);
          if (!options.wants(name)) continue;
          ITIF_ASSIGN(const DeviceGemm gemm, make_gemm(device, size));
          ITIF_TRY(check(device, *stream, gemm));
          const Hardware on = hardware_of(device.info());
          const GemmSize sizes[] = {{size.rows, size.n, size.k}};
          ITIF_ASSIGN(const auto bare, bare_gemms(on, sizes, GemmOrder(short_repeats(on), {0})));
          const kernels::GroupedGemm arguments = gemm.arguments();
          ITIF_ASSIGN(const auto samples,
                      measure_short(*stream, on, {[&] { stream->launch(arguments); }}, {bare.get()},
                                    options.effort()));
          const double flop = 2.0 * size.rows * size.k * size.n;
          report.add({.name = name,
                      .mode = dtype,
                      .value = flop / samples[0].median(),
                      .unit = "GFLOP/s",
                      .spread = samples[0].spread(),
                      .limit = flop / samples[1].median(),
                      .ratio = samples[1].median() / samples[0].median()});
        }
        return {};
      });
}

}  // namespace itif::bench
