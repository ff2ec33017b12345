#include "pipeline/spreader.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "config/config.h"
#include "net/flow_hash.h"

namespace itif::pipeline {

Spreader::Split Spreader::split(std::span<rte_mbuf*> burst) noexcept {
  DCHECK(burst.size() <= kMaxBurst);
  for (const rte_mbuf* mbuf : burst) rte_prefetch0(rte_pktmbuf_mtod(mbuf, const std::byte*));
  // Counts the frames of each worker, then sorts them by worker: 0 is the owner.
  const uint64_t num_workers = lanes_.size() + 1;
  std::array<uint8_t, kMaxBurst> workers;
  std::array<uint8_t, config::kMaxWorkers + 1> ends;
  std::fill_n(ends.begin(), num_workers + 1, uint8_t{0});
  for (size_t i = 0; i < burst.size(); ++i) {
    const auto hash =
        net::flow_hash({rte_pktmbuf_mtod(burst[i], const std::byte*), burst[i]->data_len}, seed_);
    workers[i] = hash ? static_cast<uint8_t>(*hash * num_workers >> 32) : uint8_t{0};
    ++ends[workers[i] + 1u];
  }
  for (size_t worker = 0; worker < num_workers; ++worker) ends[worker + 1] += ends[worker];
  // From here on, ends[w] is where the next frame of worker w goes, and in the end w's end.
  std::array<rte_mbuf*, kMaxBurst> sorted;
  for (size_t i = 0; i < burst.size(); ++i) sorted[ends[workers[i]]++] = burst[i];

  Split split{.own = ends[0]};
  std::copy_n(sorted.begin(), split.own, burst.begin());
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const size_t begin = ends[lane], count = ends[lane + 1] - begin;
    if (count == 0) continue;
    const std::span<rte_mbuf* const> frames(&sorted[begin], count);
    const size_t given = lanes_[lane]->give(frames);
    split.passed += given;
    std::copy(frames.begin() + static_cast<ptrdiff_t>(given), frames.end(),
              burst.begin() + static_cast<ptrdiff_t>(split.own + split.full));
    split.full += count - given;
  }
  return split;
}

size_t Spreader::collect(net::TxBuffer& out) noexcept {
  const size_t share = out.room() / (lanes_.size() + 1);
  // If only a few frames fit, the owner's answers and the members take turns.
  if (share == 0 && (waits_ = !waits_)) return 0;
  std::array<rte_mbuf*, net::TxBuffer::kCapacity> frames;
  size_t collected = 0;
  for (size_t i = 0; i < lanes_.size() && out.room() > 0; ++i) {
    SpreadLane& lane = *lanes_[(first_ + i) % lanes_.size()];
    const size_t most = std::max<size_t>(share, 1);
    const size_t count = lane.take_to_send(std::span(frames).first(most));
    for (rte_mbuf* mbuf : std::span(frames).first(count)) out.push(mbuf);
    collected += count;
  }
  first_ = (first_ + 1) % lanes_.size();
  return collected;
}

bool Spreader::has_to_send() const noexcept {
  return std::ranges::any_of(lanes_, [](const SpreadLane* lane) { return lane->has_to_send(); });
}

bool Spreader::have_ended() const noexcept {
  return std::ranges::all_of(
      lanes_, [](const SpreadLane* lane) { return lane->has_ended() && !lane->has_to_send(); });
}

}  // namespace itif::pipeline
