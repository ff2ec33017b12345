// The list of all operators. Streams take an operator as a pointer to its arguments and visit it,
// so that one without an implementation does not compile.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <variant>

#include "kernels/args.h"
#include "kernels/decode_args.h"
#include "kernels/low_rank_args.h"
#include "kernels/thesis_args.h"

namespace itif::kernels {
namespace operators {

template <class... A, class... B, class... C, class... D>
std::variant<const A*..., const B*..., const C*..., const D*...> joined(OperatorList<A...>,
                                                                        OperatorList<B...>,
                                                                        OperatorList<C...>,
                                                                        OperatorList<D...>);
template <class... Args>
constexpr std::array<const char*, sizeof...(Args)> names(
    std::type_identity<std::variant<const Args*...>>) {
  return {Args::kName...};
}

}  // namespace operators

// An operator to launch: its arguments. index() is its position in the list.
using Operator = decltype(operators::joined(CommonOperators(), DecoderOperators(),
                                            AdapterOperators(), ThesisOperators()));
inline constexpr size_t kNumOperators = std::variant_size_v<Operator>;
inline constexpr std::array<const char*, kNumOperators> kOperatorNames =
    operators::names(std::type_identity<Operator>());

// The arguments of an operator.
template <class Args>
concept OperatorArgs = std::constructible_from<Operator, const Args*>;

}  // namespace itif::kernels
