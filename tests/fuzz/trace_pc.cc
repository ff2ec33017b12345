// Connects GCC's coverage to libFuzzer. GCC calls __sanitizer_cov_trace_pc() in every basic block
// (-fsanitize-coverage=trace-pc), while libFuzzer reads a table of 8-bit counters, as clang makes
// it. A basic block counts at a hash of its address. libFuzzer itself defines the functions that
// comparisons call (trace-cmp), and an empty __sanitizer_cov_trace_pc(), which is linked as
// --wrap says.
#include <cstddef>
#include <cstdint>

extern "C" {
extern const char __executable_start;  // by the linker
void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);
void __sanitizer_cov_pcs_init(const uintptr_t* begin, const uintptr_t* end);
}

namespace {

// About ten times the basic blocks that one target reaches, so that few share a counter.
constexpr unsigned kIndexBits = 17;
constexpr size_t kCounters = size_t{1} << kIndexBits;

uint8_t counters[kCounters];
// libFuzzer counts the covered blocks by a table with an address and flags for each counter.
uintptr_t addresses[2 * kCounters];

[[gnu::constructor, gnu::no_sanitize_coverage]] void give_counters_to_libfuzzer() {
  for (size_t i = 0; i < kCounters; ++i) addresses[2 * i] = i + 1;
  __sanitizer_cov_8bit_counters_init(counters, counters + kCounters);
  __sanitizer_cov_pcs_init(addresses, addresses + 2 * kCounters);
}

}  // namespace

extern "C" [[gnu::no_sanitize_coverage, gnu::no_sanitize_address, gnu::no_sanitize_undefined]] void
__wrap___sanitizer_cov_trace_pc() {
  // Relative, so that a block has the same counter in every run.
  const auto block = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<uintptr_t>(&__executable_start);
  uint8_t& counter = counters[block * 0x9e3779b97f4a7c15 >> (64 - kIndexBits)];
  if (counter != UINT8_MAX) ++counter;
}

// Comparisons of floating-point numbers, which libFuzzer does not know.
extern "C" [[gnu::no_sanitize_coverage]] void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" [[gnu::no_sanitize_coverage]] void __sanitizer_cov_trace_cmpd(double, double) {}

// GCC's UBSan has a runtime of its own, which does not call libFuzzer before it ends the program.
// libFuzzer keeps the input after a signal.
extern "C" [[gnu::no_sanitize_coverage]] const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}
