// Figures that GSLICE states for its combinations of networks, to be shown beside ours.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, Tables 2 and 3.
#pragma once

#include <algorithm>
#include <string_view>

namespace itif::bench {

// Gains in GPU utilisation efficacy over MPS without limits, in percent.
struct StatedGain {
  std::string_view networks;
  double slab, slices;
};
inline constexpr StatedGain kStatedGains[] = {
    {"Alexnet", 62.54, 146.28},
    {"Mobilenet", 3.36, 14.99},
    {"ResNet-50", 46.11, 65.18},
    {"VGG-19", 2.92, 5.71},
    {"Alexnet, ResNet-50", 108.7, 170.02},
    {"Alexnet, VGG-19", 146.65, 600.79},
    {"Alexnet, ResNet-50, VGG-19", 131.74, 627.67},
    {"Alexnet, Mobilenet, ResNet-50, VGG-19", 261.41, 890.10}};

// REQUIRES: the paper has this combination.
inline const StatedGain& stated_gain(std::string_view networks) {
  return *std::ranges::find(kStatedGains, networks, &StatedGain::networks);
}

}  // namespace itif::bench
