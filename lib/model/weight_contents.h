// The contents of a model's weights, kind by kind, for finding slots that hold the same.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "model/checkpoint.h"
#include "model/content_hash.h"
#include "model/weight_kind.h"

namespace itif::model {

// A kind's content: the types, shapes and bytes of its sources.
struct KindContent {
  // The hash of the first kFirstBytes of each source. Weights that differ nearly always differ
  // there, so that few others are read whole.
  ContentId first = {};
  ContentId whole = {};  // all zeros: not read
  bool operator==(const KindContent&) const = default;
};
using WeightContents = std::vector<KindContent>;  // by kind

// An entry of a slab (weight_slabs.h): how it holds weights, and the beginnings of those that count
// for it. On one device, entries of the same layout and the same whole weights have the same bytes.
struct EntryBeginning {
  std::vector<uint64_t> layout;  // stride, kinds, shapes
  std::vector<ContentId> first;
  auto operator<=>(const EntryBeginning&) const = default;
};
struct EntryContent {
  EntryBeginning beginning;
  std::vector<ContentId> whole;
  bool operator==(const EntryContent&) const = default;
};

inline constexpr uint64_t kFirstBytes = 4096;

// Hashes at most `max_bytes` of each source of a kind. Errors: those of Checkpoint::scan.
Result<ContentId> hash_kind(const ContentKey& key, const WeightKind& kind,
                            const Checkpoint& checkpoint, uint64_t max_bytes);
// Hashes a kind from its sources as read, an empty view for a source without names: the same
// result.
KindContent content_of(const ContentKey& key, const WeightKind& kind,
                       std::span<const TensorView> sources);

}  // namespace itif::model
