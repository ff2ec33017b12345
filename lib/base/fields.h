// Visits the fields of an aggregate. Code that must treat every field of a struct uses it instead
// of a second list of the fields, from which one can be missing.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace itif {
namespace fields {

inline constexpr size_t kMaxFields = 16;

// Converts to the type of any field.
struct Any {
  template <class T>
  constexpr operator T() const noexcept;
};

template <class T, size_t... I>
constexpr bool has_initializers(std::index_sequence<I...>) {
  return requires {
    T{(void(I), Any{})...};
  };
}

template <class T, size_t kCount = kMaxFields + 1>
constexpr size_t count() {
  if constexpr (has_initializers<T>(std::make_index_sequence<kCount>()))
    return kCount;
  else
    return count<T, kCount - 1>();
}

}  // namespace fields

// Calls visit(field) for each field, in order. REQUIRES: T has no base class, no array and no
// bit-field.
template <class T, class Visit>
constexpr void for_each_field(T& value, const Visit& visit) {
  constexpr size_t kCount = fields::count<std::remove_const_t<T>>();
  static_assert(kCount <= fields::kMaxFields, "add a case below for structs of more fields");
  const auto all = [&](auto&... field) { (visit(field), ...); };
  if constexpr (kCount == 1) {
    auto& [a] = value;
    all(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = value;
    all(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = value;
    all(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = value;
    all(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = value;
    all(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = value;
    all(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    all(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    all(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    all(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    all(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kCount == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    all(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kCount == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (kCount == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (kCount == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (kCount == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (kCount == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

}  // namespace itif
