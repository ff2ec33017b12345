#include "fixture.h"

#include <cstring>

#include "base/log.h"

namespace itif::kernels {

std::vector<SegmentRows> segments_of(std::span<const uint32_t> offsets) {
  std::vector<SegmentRows> segments;
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    segments.push_back({offsets[i], offsets[i + 1] - offsets[i]});
  return segments;
}

void DeviceTest::SetUp() {
  log::set_level(log::Level::kWarning);
  auto device = open_case(GetParam());
  if (!device && device.error().code == Code::kUnsupported) GTEST_SKIP() << device.error().message;
  ASSERT_TRUE(device) << device.error().message;
  device_ = std::move(*device);
  auto stream = device_->make_stream();
  ASSERT_TRUE(stream) << stream.error().message;
  stream_ = std::move(*stream);
  stream_->attach_thread();
}

float DeviceTest::rounded(float value) const {
  if (activation() == DType::kBF16) return bf16_to_f32(f32_to_bf16(value));
  return activation() == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : value;
}

std::vector<float> DeviceTest::random_values(size_t count, double scale, double offset) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random_.normal() * scale + offset);
  return values;
}

std::vector<float> DeviceTest::random_activations(size_t count, double scale, double offset) {
  std::vector<float> values = random_values(count, scale, offset);
  for (float& v : values) v = rounded(v);
  return values;
}

std::byte* DeviceTest::upload(std::span<const float> values, DType type, size_t slack) {
  auto buffer = device_->allocate((values.size() + slack) * dtype_bytes(type));
  EXPECT_TRUE(buffer) << buffer.error().message;
  const TensorView view{reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
                        Shape{values.size()}};
  EXPECT_TRUE(device_->upload(view, type, (*buffer)->data()));
  buffers_.push_back(std::move(*buffer));
  return buffers_.back()->data();
}

std::byte* DeviceTest::make_output(size_t count, DType type) {
  const std::vector<float> unwritten(count, 12345.0f);
  return upload(unwritten, type);
}

std::vector<float> DeviceTest::download(const void* data, size_t count, DType type) {
  std::vector<std::byte> raw(count * dtype_bytes(type));
  stream_->copy_to_host(data, raw.size(), raw.data());
  const Status status = stream_->synchronize();
  EXPECT_TRUE(status) << status.error().message;
  std::vector<float> values(count);
  TensorView{raw.data(), type, Shape{count}}.to_f32(values.data());
  return values;
}

Slab DeviceTest::upload_slab(const std::vector<std::vector<float>>& values, DType type) {
  auto slab = device_->reserve_slab(values[0].size() * dtype_bytes(type),
                                    static_cast<uint32_t>(values.size()));
  EXPECT_TRUE(slab) << slab.error().message;
  for (uint32_t slot = 0; slot < values.size(); ++slot) {
    EXPECT_TRUE((*slab)->commit(slot));
    const TensorView view{reinterpret_cast<const std::byte*>(values[slot].data()), DType::kF32,
                          Shape{values[slot].size()}};
    EXPECT_TRUE(device_->upload(view, type, (*slab)->slab().at(slot)));
  }
  slabs_.push_back(std::move(*slab));
  return slabs_.back()->slab();
}

void expect_close(std::span<const float> actual, std::span<const double> expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  size_t wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (error <= tolerance * std::max(1.0, std::abs(expected[i]))) continue;  // false for NaN
    if (++wrong <= 3)
      ADD_FAILURE() << what << ": element " << i << " is " << actual[i] << ", expected "
                    << expected[i] << ", tolerance " << tolerance;
  }
  EXPECT_EQ(wrong, 0u) << what << ": of " << actual.size();
}

std::vector<RowRange> make_ranges(std::span<const uint32_t> rows, std::span<const uint32_t> slots) {
  std::vector<RowRange> ranges;
  uint32_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ranges.push_back({.first_row = first, .num_rows = rows[i], .slot = slots[i % slots.size()]});
    first += rows[i];
  }
  return ranges;
}

uint32_t total_rows(std::span<const RowRange> ranges) {
  return ranges.empty() ? 0 : ranges.back().first_row + ranges.back().num_rows;
}

std::vector<uint32_t> slot_of_rows(std::span<const RowRange> ranges) {
  std::vector<uint32_t> slots;
  for (const RowRange& range : ranges) slots.insert(slots.end(), range.num_rows, range.slot);
  return slots;
}

}  // namespace itif::kernels
