// Devices that open_device() chooses, and its errors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "device/compute_types.h"
#include "device/device.h"
#include "device/host/cpu.h"
#include "device/host/host_device.h"
#include "device/threads.h"

namespace itif::device {
namespace {

TEST(OpenDevice, AutoFallsBackToTheHost) {
  const auto cuda = open_device({.kind = "cuda"});
  const auto device = open_device({});
  ASSERT_TRUE(device) << device.error().message;
  if (cuda) {
    EXPECT_EQ((*device)->info().kind, "cuda");
    GTEST_SKIP() << "there is a GPU";
  }
  const DeviceInfo& info = (*device)->info();
  EXPECT_EQ(info.kind, "host");
  EXPECT_EQ(info.compute, uniform_types(detect_cpu().has_avx512_bf16 ? DType::kBF16 : DType::kF32));
  EXPECT_EQ(info.num_threads, num_process_cpus());
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_NE(info.description.find(detect_cpu().name), std::string::npos) << info.description;
  EXPECT_NE(info.description.find(std::to_string(info.num_threads) + " thread"), std::string::npos);
  EXPECT_NE(info.description.find("oneDNN "), std::string::npos);
}

TEST(OpenDevice, CudaIsRefusedWithTheCause) {
  const auto device = open_device({.kind = "cuda"});
  if (device) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(device.error().code, Code::kUnsupported);
  const std::string message = device.error().message;
  EXPECT_TRUE(message.starts_with("device cuda cannot be used: ")) << message;
  EXPECT_TRUE(message.ends_with("; use auto or host")) << message;
  EXPECT_GT(message.size(), 60u) << message;
}

TEST(OpenDevice, UsesTheConfiguredDtype) {
  const auto device = open_device({.kind = "host", .dtype = "f32", .num_threads = 3});
  ASSERT_TRUE(device);
  EXPECT_EQ((*device)->info().compute, uniform_types(DType::kF32));
  EXPECT_EQ((*device)->info().num_threads, 3u);
}

TEST(OpenDevice, Bf16NeedsCpuSupport) {
  CpuFeatures old_cpu{.name = "Old CPU", .best_isa = "AVX2", .has_avx512_bf16 = false};
  const auto refused = open_host_device({.dtype = "bf16"}, old_cpu);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("Old CPU has AVX2"), std::string::npos)
      << refused.error().message;

  const auto fallback = open_host_device({.dtype = "auto"}, old_cpu);
  ASSERT_TRUE(fallback);
  EXPECT_EQ((*fallback)->info().compute, uniform_types(DType::kF32));
}

TEST(OpenDevice, TheHostRefusesCudnn) {
  const auto refused = open_device({.kind = "host", .attention = "cudnn"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("attention cudnn needs a GPU"), std::string::npos)
      << refused.error().message;
}

TEST(OpenDevice, TheHostRefusesAGpusOrdinal) {
  const auto refused = open_device({.kind = "host", .ordinal = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().message,
            "ordinal 1 names a GPU, but the device is the host (as configured): use ordinal 0");
}

TEST(OpenDevice, RefusesUnsupportedOptions) {
  const auto half = open_device({.kind = "host", .dtype = "f16"});
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, Code::kUnsupported);
  for (const DeviceOptions& options :
       {DeviceOptions{.kind = "gpu"}, DeviceOptions{.kind = ""}, DeviceOptions{.dtype = "int8"},
        DeviceOptions{.kind = "host", .attention = "flash"},
        DeviceOptions{.kind = "host", .num_threads = 100000}}) {
    const auto device = open_device(options);
    ASSERT_FALSE(device) << options.kind << " " << options.dtype;
    EXPECT_EQ(device.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(device.error().message.empty());
  }
}

TEST(ComputeTypes, EveryNameIsReadBack) {
  for (const std::string& name : compute_names()) {
    const auto types = read_compute_types(name, {});
    ASSERT_TRUE(types) << name;
    EXPECT_EQ(compute_name(*types), name);
  }
  EXPECT_EQ(read_compute_types("auto", uniform_types(DType::kF16)), uniform_types(DType::kF16));
  const auto unknown = read_compute_types("fp4", {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_EQ(unknown.error().message, "dtype 'fp4' is none of auto, f32, bf16, f16");
}

TEST(HostDevice, RefusesTypesItDoesNotMultiplyByName) {
  EXPECT_TRUE(check_host_types(uniform_types(DType::kF32)));
  EXPECT_TRUE(check_host_types(uniform_types(DType::kBF16)));
  const Status mixed = check_host_types({.weights = DType::kU8, .activations = DType::kBF16});
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Code::kUnsupported);
  EXPECT_EQ(mixed.error().message,
            "the host device has no GEMM of u8 weights and bf16 activations");
  EXPECT_FALSE(check_host_types({.weights = DType::kBF16, .activations = DType::kF32}));
  const Status half = check_host_types(uniform_types(DType::kF16));
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, Code::kUnsupported);
  EXPECT_EQ(half.error().message, "dtype f16 is for GPUs: the host device computes in bf16 or f32");
}

TEST(HostDevice, UploadConvertsFloatsAndRefusesIntegers) {
  const auto device = open_device({.kind = "host", .dtype = "f32"});
  ASSERT_TRUE(device);
  // 1, -2, the smallest subnormal and infinity in f16, at an odd address.
  std::vector<std::byte> raw(9);
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00};
  std::memcpy(raw.data() + 1, halves, sizeof(halves));
  const TensorView view{raw.data() + 1, DType::kF16, Shape{4}};
  float wide[4];
  ASSERT_TRUE((*device)->upload(view, DType::kF32, wide));
  EXPECT_EQ(wide[0], 1.0f);
  EXPECT_EQ(wide[1], -2.0f);
  EXPECT_EQ(wide[2], 0x1p-24f);
  EXPECT_TRUE(std::isinf(wide[3]));
  uint16_t narrow[4];
  ASSERT_TRUE((*device)->upload(view, DType::kBF16, narrow));
  EXPECT_EQ(narrow[0], 0x3f80);
  EXPECT_EQ(narrow[1], 0xc000);

  const TensorView integers{raw.data(), DType::kI64, Shape{1}};
  const Status refused = (*device)->upload(integers, DType::kF32, wide);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_FALSE((*device)->upload(view, DType::kI32, wide));
}

}  // namespace
}  // namespace itif::device
