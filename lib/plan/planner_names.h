// The names of the planners: those of meson.build's list, in its order.
#pragma once

#include <initializer_list>
#include <string_view>

namespace itif::plan {

inline const std::initializer_list<std::string_view> kPlannerNames = {
#define ITIF_PLANNER(name) #name,
#include "plan/planners.inc"
#undef ITIF_PLANNER
};

}  // namespace itif::plan
