// The names of the batch policies: those of meson.build's list, in its order.
#pragma once

#include <initializer_list>
#include <string_view>

namespace itif::sched {

inline const std::initializer_list<std::string_view> kPolicyNames = {
#define ITIF_POLICY(name) #name,
#include "sched/policies.inc"
#undef ITIF_POLICY
};

}  // namespace itif::sched
