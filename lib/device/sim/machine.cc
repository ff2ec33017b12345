// Sources. Data sheets are NVIDIA's, of the named product:
//
//   V100     "NVIDIA Tesla V100 GPU Accelerator" data sheet, SXM2 16 GB: 15.7 TFLOPS single
//            precision, 125 TFLOPS deep learning (f16), 900 GB/s, 16 GB. Multiprocessors: "NVIDIA
//            Tesla V100 GPU Architecture" (WP-08608), 80. No bf16: the same paper, tensor cores.
//   A5000    "NVIDIA RTX A5000" data sheet: 27.8 TFLOPS single precision, 222.2 TFLOPS tensor with
//            sparsity, thus 111.1 dense, 768 GB/s, 24 GB. Multiprocessors: 8,192 CUDA cores at
//            128 each ("NVIDIA Ampere GA102 GPU Architecture"), 64.
//   A100     "NVIDIA A100 Tensor Core GPU" data sheet, SXM 40 GB: 19.5 TFLOPS f32, 312 TFLOPS f16
//            and bf16 dense, 1,555 GB/s, 40 GB. Multiprocessors: "NVIDIA A100 Tensor Core GPU
//            Architecture", 108.
//   H200     "NVIDIA H200 Tensor Core GPU" data sheet, SXM: 67 TFLOPS f32, 1,979 TFLOPS f16 and
//            bf16 with sparsity, thus 989.5 dense, 4.8 TB/s, 141 GB. Multiprocessors: those of the
//            H100 SXM ("NVIDIA H100 Tensor Core GPU Architecture"), 132.
//
//   host_bytes_per_s: PCIe 3.0 x16 (V100), 4.0 x16 (A5000, A100), 5.0 x16 (H200) carry 15.75, 31.5
//            and 63 GB/s (PCI-SIG: 8, 16 and 32 GT/s per lane with 128b/130b coding).
//   collected_bytes_per_s: Dhakal et al., "GSLICE", SoCC 2020, sections 4 and 4.4: an image of 588
//            KB, in 588 packets, takes about 100 µs to reach a V100 without zero copy. Assumed for
//            the other GPUs.
//   attained: Markidis et al., "NVIDIA Tensor Core Programmability, Performance & Precision", 2018:
//            cuBLAS reaches 83 of 112.7 TFLOPS with tensor cores on a V100, 0.74. Assumed for the
//            other GPUs.
//   launch_ns: Gray, "Getting Started with CUDA Graphs" (NVIDIA technical blog, 2019): on a V100 a
//            kernel of 2.9 µs takes 3.8 µs when launches overlap with execution, 0.9 µs more.
//            Assumed for the other GPUs.
#include "device/sim/machine.h"

#include <fmt/format.h>

namespace itif::device {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;
constexpr double kAttained = 0.74;
constexpr double kLaunchNs = 900;
constexpr double kCollected = 588e3 / 100e-6;
constexpr double kPcie3 = 15.75 * kGiga, kPcie4 = 31.5 * kGiga, kPcie5 = 63 * kGiga;

constexpr Machine kMachines[] = {
    {.name = "v100",
     .description = "NVIDIA V100 SXM2 16 GB",
     .f32_flops = 15.7 * kTera,
     .f16_flops = 125 * kTera,
     .bf16_flops = 0,
     .attained = kAttained,
     .bytes_per_s = 900 * kGiga,
     .host_bytes_per_s = kPcie3,
     .collected_bytes_per_s = kCollected,
     .launch_ns = kLaunchNs,
     .memory_bytes = 16'000'000'000,
     .multiprocessors = 80},
    {.name = "a5000",
     .description = "NVIDIA RTX A5000",
     .f32_flops = 27.8 * kTera,
     .f16_flops = 111.1 * kTera,
     .bf16_flops = 111.1 * kTera,
     .attained = kAttained,
     .bytes_per_s = 768 * kGiga,
     .host_bytes_per_s = kPcie4,
     .collected_bytes_per_s = kCollected,
     .launch_ns = kLaunchNs,
     .memory_bytes = 24'000'000'000,
     .multiprocessors = 64},
    {.name = "a100",
     .description = "NVIDIA A100 SXM 40 GB",
     .f32_flops = 19.5 * kTera,
     .f16_flops = 312 * kTera,
     .bf16_flops = 312 * kTera,
     .attained = kAttained,
     .bytes_per_s = 1555 * kGiga,
     .host_bytes_per_s = kPcie4,
     .collected_bytes_per_s = kCollected,
     .launch_ns = kLaunchNs,
     .memory_bytes = 40'000'000'000,
     .multiprocessors = 108},
    {.name = "h200",
     .description = "NVIDIA H200 SXM",
     .f32_flops = 67 * kTera,
     .f16_flops = 989.5 * kTera,
     .bf16_flops = 989.5 * kTera,
     .attained = kAttained,
     .bytes_per_s = 4800 * kGiga,
     .host_bytes_per_s = kPcie5,
     .collected_bytes_per_s = kCollected,
     .launch_ns = kLaunchNs,
     .memory_bytes = 141'000'000'000,
     .multiprocessors = 132},
};

}  // namespace

std::span<const Machine> machines() noexcept {
  return kMachines;
}

std::string machine_names() {
  std::string names;
  for (const Machine& machine : kMachines)
    names += (names.empty() ? "" : ", ") + std::string(machine.name);
  return names;
}

Result<const Machine*> find_machine(std::string_view name) {
  for (const Machine& machine : kMachines)
    if (machine.name == name) return &machine;
  return fail(Code::kNotFound, fmt::format("no machine '{}'; known are {}", name, machine_names()));
}

}  // namespace itif::device
