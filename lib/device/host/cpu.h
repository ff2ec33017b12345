// What this machine's CPUs can do, and which of them the process may run on.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace itif::device {

struct CpuFeatures {
  std::string name;      // "AMD EPYC", as the CPU gives it
  std::string best_isa;  // "AVX512-BF16": what matters for GEMMs
  bool has_avx512_bf16 = false;
  bool has_amx_bf16 = false;  // and may use it; implies has_avx512_bf16
};
CpuFeatures detect_cpu();

// CPUs of the process's affinity mask when it started: before packet workers pinned their threads
// (and with them the threads that these create).
uint32_t num_process_cpus();
// Lets the calling thread run on `cpus`; empty: on all of those. CPUs that the machine lacks are left out.
void use_cpus(std::span<const unsigned> cpus);

}  // namespace itif::device
