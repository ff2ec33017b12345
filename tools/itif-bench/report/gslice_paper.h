// Figures that GSLICE states for its networks and its components, to be shown beside ours.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, Tables 2 and 3, section 4.4.
#pragma once

#include <algorithm>
#include <optional>
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

// Figure 12a: throughput with one component alone, over that with none. 0: only in the plot.
struct StatedComponents {
  std::string_view network;
  double streams, zero_copy;
};
inline constexpr StatedComponents kStatedComponents[] = {
    {"Alexnet", 1.39, 540.0 / 460}, {"ResNet-50", 1.66, 0}, {"VGG-19", 0, 0}};

// Figures 12a and 12b: what is enabled. "all" are the three together.
struct Component {
  const char* name;
  bool overlaps, is_zero_copy, batches;  // streams, zero copy, batching
};
inline constexpr Component kComponents[] = {{"none", false, false, false},
                                            {"streams", true, false, false},
                                            {"zero copy", false, true, false},
                                            {"batching", false, false, true},
                                            {"all", true, true, true}};

// The paper's gain in throughput; nullopt: its text does not state it. REQUIRES: `network` is one
// of kStatedComponents.
inline std::optional<double> stated_gain(std::string_view network, const Component& component) {
  const StatedComponents& stated =
      *std::ranges::find(kStatedComponents, network, &StatedComponents::network);
  double gain = 0;
  if (component.overlaps && !component.batches) gain = stated.streams;
  if (component.is_zero_copy && !component.batches) gain = stated.zero_copy;
  return gain > 0 ? std::optional(gain) : std::nullopt;
}

}  // namespace itif::bench
