// Figures that GSLICE states for its networks and its components, to be shown beside ours.
//
// The sources are named with each figure: a table of the paper, or its text. Figures 8 to 10, 12
// and 14 are plots without numbers. Only those that the text repeats are here.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace itif::bench {

// A figure of the paper: one number (`from` alone), a range, or an upper bound (`to` alone). 0: not
// stated.
struct Stated {
  double from = 0, to = 0;
};

// The three ways in which the paper serves its networks.
enum class Way : uint8_t { kDefault, kSlab, kSlices };

struct StatedMix {
  std::string_view networks;
  // GPU utilisation efficacy by Way. Tables 2 and 3.
  double gue[3];
  // Its gain over kDefault in percent, as the same tables print it.
  double slab_gain, slices_gain;
  // Answers/s with slices, over kDefault and over kSlab. Text of sections 4.1 and 4.2.
  Stated over_default, over_slab;
};
inline constexpr StatedMix kStatedMixes[] = {
    {"Alexnet", {235.75, 382.4, 579.41}, 62.54, 146.28, {10, 0}, {}},
    {"Mobilenet", {330.0, 341.2, 379.55}, 3.36, 14.99, {9, 0}, {}},
    {"ResNet-50", {29.08, 42.4, 47.93}, 46.11, 65.18, {}, {}},
    {"VGG-19", {4.96, 5.11, 5.25}, 2.92, 5.71, {2, 0}, {}},
    {"Alexnet, ResNet-50", {38.82, 72.69, 94.04}, 108.7, 170.02, {6, 13}, {1.2, 4}},
    {"Alexnet, VGG-19", {6.39, 15.76, 44.79}, 146.65, 600.79, {6, 13}, {1.2, 4}},
    {"Alexnet, ResNet-50, VGG-19", {3.38, 7.83, 24.59}, 131.74, 627.67, {6, 13}, {1.2, 4}},
    {"Alexnet, Mobilenet, ResNet-50, VGG-19",
     {2.01, 7.29, 19.98},
     261.41,
     890.10,
     {6, 13},
     {1.2, 4}}};
// Answers/s of VGG-19 in Figure 10b with slices, over those with slab. Text of section 4.2.
inline constexpr double kStatedHeaviest = 22.0 / 32;
// The objective of Figures 8 to 10, which every batch of the paper keeps, in ms. Text of sections
// 4.1 and 4.2.
inline constexpr double kStatedObjectiveMs = 25;
inline constexpr const char* kSourcesOfMixes =
    "`[…]` is the paper's figure, on a Tesla V100. GUE and its ratios: Tables 2 and 3, whose "
    "percentages for Alexnet and ResNet-50 (C1) are not those of their own GUE (1.87 and 2.42 "
    "times). Ratios of answers/s, and the bound of a batch's time (25 ms, the objective): text of "
    "sections 4.1 and 4.2. Figures 8 to 10 print no numbers, and none is read off their bars";

// REQUIRES: the paper has this combination.
inline const StatedMix& stated_mix(std::string_view networks) {
  return *std::ranges::find(kStatedMixes, networks, &StatedMix::networks);
}

// Figure 12a: throughput with one component alone, over that with none. 0: only in the plot. Text
// of section 4.4.
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
// Figure 12b: latency with batching, over that with no component. Text of section 4.4.
inline constexpr Stated kStatedBatchingLatency = {2, 3};

inline constexpr const char* kSourcesOfComponents =
    "`[…]` is the paper's figure, on a Tesla V100, from the text of section 4.4: 39 and 66 % more "
    "answers/s by streams, 540 instead of 460 by zero copy, and 2 to 3 times the latency with "
    "batching. The bars of Figures 12a and 12b print no numbers, and none is read off them";

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

// Figure 12c: time until the batch size has settled, below it for SLAB, about it for Clipper. Text
// of section 4.5.
struct StatedConvergence {
  uint32_t slo_ms;
  double slab_ms, aimd_ms;
};
inline constexpr StatedConvergence kStatedConvergences[] = {{50, 300, 3500}, {100, 500, 10'000}};
// Figure 14: answers/s of SLAB over those of Clipper, by objective. Text of section 4.5.
inline constexpr Stated kStatedSlabOverAimd = {1.02, 1.5};
inline constexpr const char* kSourcesOfControls =
    "`[…]` is the paper's figure, on a Tesla V100, from the text of section 4.5: 2 to 50 % more "
    "answers/s for SLAB than for Clipper; SLAB converges within 300 ms at 50 ms and 500 ms at 100 "
    "ms, Clipper after 3.5 s and more than 10 s. The curves of Figures 12c and 14 print no "
    "numbers, "
    "and none is read off them";

// Table 1: networks in CNTK, each instance with parameters of its own, and with shared ones.
struct StatedSharing {
  std::string_view network;
  double size_mb;
  double load_ms, shared_load_ms;
  double memory_mb, shared_memory_mb;
  double instances, shared_instances;
};
inline constexpr StatedSharing kStatedSharings[] = {
    {"Alexnet", 240, 781, 97, 1037, 795, 15, 18},
    {"ResNet-50", 98, 430, 89, 917, 805, 17, 18},
    {"ResNet-152", 232, 747, 103, 1101, 805, 14, 18},
    {"VGG-19", 549, 1561, 107, 1389, 825, 11, 17}};

}  // namespace itif::bench
