// CHECK for programming errors only, never for what a peer or a file said.
// DCHECK is for hot paths: release builds (meson --buildtype=release, which sets NDEBUG) leave it out.
#pragma once

namespace itif {
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}

#define CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::itif::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define DCHECK(condition) ((void)sizeof(!(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif
