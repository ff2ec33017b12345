// Features of this machine's CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace itif::device {

struct CpuFeatures {
  std::string name;      // "AMD EPYC", as the CPU reports it
  std::string best_isa;  // "AVX512-BF16": the best for GEMMs
  bool has_avx512_bf16 = false;
  bool has_amx_bf16 = false;    // and the process may use it; implies has_avx512_bf16
  size_t cache_bytes = 0;       // the first CPU's last-level cache; 0: the kernel does not say
  size_t core_cache_bytes = 0;  // the first CPU's second-level cache; 0: as above
};
CpuFeatures detect_cpu();

}  // namespace itif::device
