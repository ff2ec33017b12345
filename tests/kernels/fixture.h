// One suite for every device: each test runs on each device of device_cases(), through Device and
// Stream only, against references in double precision (reference.h). A device that this machine or
// build lacks is skipped with the reason.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/device.h"

namespace itif::kernels {

// Segments [offsets[i], offsets[i + 1]), without padding.
std::vector<SegmentRows> segments_of(std::span<const uint32_t> offsets);

// The devices that a program tests: defined in host_devices.cc, or in tests/simt/devices.cc.
struct DeviceCase {
  const char* name;
  device::DeviceOptions options;
};
std::vector<DeviceCase> device_cases();
// The devices for tests of attention, which may come from another library.
std::vector<DeviceCase> attention_cases();
Result<std::unique_ptr<device::Device>> open_case(const DeviceCase& one);

class DeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override;

  DType activation() const { return device_->info().compute.activations; }
  // Relative error of rounding one value to the activation type: 2⁻⁸ in bf16, of 8 significant
  // bits, 2⁻¹¹ in f16.
  double unit() const {
    return activation() == DType::kBF16 ? 0x1p-8 : activation() == DType::kF16 ? 0x1p-11 : 0x1p-24;
  }

  // Error of a GEMM with a bias, in unit(): a GPU rounds before and after adding the bias.
  double gemm_units() const { return device_->info().kind == "cuda" ? 4 : 2.2; }
  // The same for ranges computed sequentially, where a GPU's library adds bias and activation
  // before it rounds.
  double sequential_units() const { return device_->info().kind == "cuda" ? 1.05 : 2.2; }
  // Returns the value as the device stores it.
  float rounded(float activation) const;

  // Random normal values. Activations are rounded to the type that the device stores.
  std::vector<float> random_values(size_t count, double scale = 1.0, double offset = 0.0);
  std::vector<float> random_activations(size_t count, double scale = 1.0, double offset = 0.0);

  // Returns device memory that holds `values` as `type`, then `slack` zeroed elements. It is freed
  // with the test.
  std::byte* upload(std::span<const float> values, DType type, size_t slack = 0);
  std::byte* upload_activations(std::span<const float> values, size_t slack = 0) {
    return upload(values, activation(), slack);
  }
  // Returns output memory, filled with a pattern that shows what a launch did not write.
  std::byte* make_output(size_t count, DType type);
  std::vector<float> download(const void* data, size_t count, DType type);
  std::vector<float> download_activations(const void* data, size_t count) {
    return download(data, count, activation());
  }

  // Returns a slab whose slot s holds values[s] as `type`.
  Slab upload_slab(const std::vector<std::vector<float>>& values, DType type);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
  std::vector<std::unique_ptr<device::SlabMemory>> slabs_;
  Random random_{7};
};

// Expects |actual − expected| ≤ tolerance · max(1, |expected|), and no NaN.
void expect_close(std::span<const float> actual, std::span<const double> expected, double tolerance,
                  const std::string& what);

// Returns adjacent ranges with these row counts; slots cycle through `slots`.
std::vector<RowRange> make_ranges(std::span<const uint32_t> rows, std::span<const uint32_t> slots);
uint32_t total_rows(std::span<const RowRange> ranges);
// Returns the slot of each row.
std::vector<uint32_t> slot_of_rows(std::span<const RowRange> ranges);

#define ITIF_SUITE_OF(suite, cases)                                  \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(cases), \
                           [](const auto& info) { return std::string(info.param.name); })
#define ITIF_DEVICE_SUITE(suite) ITIF_SUITE_OF(suite, device_cases())

}  // namespace itif::kernels
