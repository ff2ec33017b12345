// CHECK aborts on programming errors. Never use it on data of a peer or a file.
// DCHECK is for hot paths: builds with NDEBUG (meson --buildtype=release) do not evaluate it.
#pragma once

namespace itif {
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}

#define CHECK(condition)                        \
  (__builtin_expect(!!(condition), 1) ? (void)0 \
                                      : ::itif::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define DCHECK(condition) ((void)sizeof(!(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif
