// Features of this machine's CPUs.
#pragma once

#include <cstdint>
#include <string>

namespace itif::device {

struct CpuFeatures {
  std::string name;      // "AMD EPYC", as the CPU reports it
  std::string best_isa;  // "AVX512-BF16": the best for GEMMs
  bool has_avx512_bf16 = false;
  bool has_amx_bf16 = false;  // and the process may use it; implies has_avx512_bf16
};
CpuFeatures detect_cpu();

}  // namespace itif::device
