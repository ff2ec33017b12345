// Finds the spans in an operator's arguments. They refer to host memory that is gone once the call
// has returned, so streams that launch later copy it, and keys of launches leave it out. The
// fields' types tell which ones are spans: no list can miss one.
#pragma once

#include <span>
#include <type_traits>

#include "base/fields.h"

namespace itif::kernels {

template <class T>
inline constexpr bool kIsSpan = false;
template <class T>
inline constexpr bool kIsSpan<std::span<T>> = true;

// Calls visit(span) for each span in `value` and in the structs among its fields. Does not enter
// the elements of a span.
template <class T, class Visit>
constexpr void for_each_span(T& value, const Visit& visit) {
  using Value = std::remove_const_t<T>;
  if constexpr (kIsSpan<Value>)
    visit(value);
  else if constexpr (requires { value.for_each_span(visit); })
    value.for_each_span(visit);
  else if constexpr (std::is_aggregate_v<Value>)
    for_each_field(value, [&](auto& field) { for_each_span(field, visit); });
  else
    static_assert(std::is_scalar_v<Value>, "a class with private fields needs for_each_span()");
}

}  // namespace itif::kernels
