#include "device/host/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace itif::device {
namespace {

std::string cpu_name() {
  char name[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned registers[4] = {};
    if (!__get_cpuid(0x80000002u + leaf, &registers[0], &registers[1], &registers[2],
                     &registers[3]))
      return "x86-64 CPU";
    std::memcpy(name + leaf * 16, registers, 16);
  }
  std::string text(name);
  const size_t first = text.find_first_not_of(' ');
  const size_t last = text.find_last_not_of(' ');
  return first == std::string::npos ? "x86-64 CPU" : text.substr(first, last - first + 1);
}

// A process must request AMX's tile registers; the kernel then saves them on every context switch.
bool amx_is_permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return (edx & kAmxBf16) && (edx & kAmxTile) && amx_is_permitted();
}

// Reads a file about a cache of the first CPU. `index` ascends with the levels. Returns a default
// value if there is no such file.
template <class Value>
Value cache_file(unsigned index, const char* name) {
  Value value{};
  std::ifstream(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/{}", index, name)) >> value;
  return value;
}

size_t cache_size(unsigned index) {
  const auto text = cache_file<std::string>(index, "size");
  return text.ends_with('K') ? std::strtoull(text.c_str(), nullptr, 10) << 10 : 0;
}

size_t core_cache_bytes() {
  for (unsigned index = 0; cache_size(index) > 0; ++index)
    if (cache_file<unsigned>(index, "level") == 2) return cache_size(index);
  return 0;
}

// sysconf(_SC_LEVEL3_CACHE_SIZE) adds up the caches of the whole socket, also those that other CPUs
// use.
size_t last_cache_bytes() {
  size_t bytes = 0;
  for (unsigned index = 0; cache_size(index) > 0; ++index) bytes = cache_size(index);
  return bytes;
}

}  // namespace

CpuFeatures detect_cpu() {
  CpuFeatures features;
  features.name = cpu_name();
  features.cache_bytes = last_cache_bytes();
  features.core_cache_bytes = core_cache_bytes();
  features.has_avx512_bf16 = __builtin_cpu_supports("avx512bf16");
  features.has_amx_bf16 = features.has_avx512_bf16 && has_amx_bf16();
  if (features.has_amx_bf16) {
    features.best_isa = "AMX-BF16";
  } else if (features.has_avx512_bf16) {
    features.best_isa = "AVX512-BF16";
  } else if (__builtin_cpu_supports("avx512bw")) {
    features.best_isa = "AVX512";
  } else if (__builtin_cpu_supports("avx2")) {
    features.best_isa = "AVX2";
  } else {
    features.best_isa = "SSE";
  }
  return features;
}

}  // namespace itif::device
