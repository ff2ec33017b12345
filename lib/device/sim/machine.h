// GPUs that the simulator knows, as their makers describe them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/dtype.h"

namespace itif::device {

// machine.cc gives each number's source. Rates are peaks; `attained` scales the arithmetic ones.
struct Machine {
  std::string_view name;  // of scenarios: "v100"
  std::string_view description;
  // Dense multiply-adds count as two operations. 0: the GPU does not compute with the type.
  double f32_flops = 0;
  double f16_flops = 0;
  double bf16_flops = 0;
  double attained = 1;          // share of these peaks that large GEMMs reach
  double bytes_per_s = 0;       // device memory
  double host_bytes_per_s = 0;  // copies between host and device, one direction
  // Inputs that the host first collects from packets, then copies to the device.
  double collected_bytes_per_s = 0;
  double launch_ns = 0;  // between the ends of two dependent kernels, besides their work
  size_t memory_bytes = 0;
  uint32_t multiprocessors = 0;

  double flops(DType type) const noexcept {
    return type == DType::kF32 ? f32_flops : type == DType::kF16 ? f16_flops : bf16_flops;
  }
};

std::span<const Machine> machines() noexcept;
std::string machine_names();  // "v100, a5000, …"
// Errors: kNotFound, listing the names.
Result<const Machine*> find_machine(std::string_view name);

}  // namespace itif::device
