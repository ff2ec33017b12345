// The sequences that are being generated, and their layout in the flat arrays of a decoder's step.
//
// A beam's table names the blocks that hold its tokens' K and V. Beams share the blocks of their
// common prefix. A beam copies a shared block before it writes to it.
//
// If the device asks for graph buckets (graph_buckets.h), sources and steps are each padded to one.
// The padding rows write nowhere and attend to nothing.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backbone/decoder.h"
#include "model/tenant_model.h"
#include "plan/plan.h"
#include "request/request.h"
#include "runtime/generate/beam_search.h"
#include "runtime/generate/kv_blocks.h"
#include "runtime/graph_buckets.h"
#include "runtime/request_ids.h"

namespace itif::runtime {

// The K/V memory of a sequence.
struct SequenceBlocks {
  std::vector<std::vector<uint32_t>> tables;  // [live beams]
  std::vector<uint32_t> memory;               // blocks of the encoded source
  uint32_t reserved_blocks = 0;

  void release_all(KvBlocks& blocks) noexcept;
};

struct Sequence : SequenceBlocks {
  request::Request* request = nullptr;
  const PreparedInput* prepared = nullptr;  // the request's; nullptr: none
  const model::TenantModel* model = nullptr;
  BeamSearch search;
  std::vector<std::vector<uint32_t>> next;  // scratch of continue_beams()
  uint32_t source_tokens = 0;
  uint32_t hold_group = 0;    // its slot or batch (kv_holds.h)
  uint32_t weight_order = 0;  // Group::weight_order() when it entered
  bool entered = false;       // since the last step; its source must be encoded

  // Its order in a step: tenants of the same weights are adjacent, those of similar ones near.
  std::tuple<uint32_t, uint32_t, uint32_t> slots() const {
    return {weight_order, model->weight_slot, request->slot};
  }
  const model::GenerationConfig& config() const { return model->head.spec.generation.front(); }
  // Gives each beam the table of the one that it continues.
  void continue_beams(KvBlocks& blocks) noexcept;
};

// Graph buckets that sources and steps are padded to.
struct GenerationBuckets {
  GraphBuckets sources, steps;
};

// Allocated once, for the largest step and the largest batch of sources.
class StepLayout {
 public:
  // `buckets` outlives the layout.
  StepLayout(uint32_t max_beams, uint32_t max_source_tokens, uint32_t max_positions,
             const GenerationBuckets& buckets);

  // Lays out one pass of the sources, and takes their blocks. Item i of the plan is entered[i].
  void build_sources(std::span<Sequence* const> entered, const plan::Plan& plan,
                     const plan::Pass& pass, KvBlocks& blocks) noexcept;
  // Lays out only padding rows, which no request owns. REQUIRES: `bucket` is one of the sources'
  // buckets.
  void build_sources(const GraphBucket& bucket) noexcept;
  backbone::Pass sources() const noexcept;
  std::span<const uint32_t> source_kv_rows() const noexcept { return source_kv_rows_; }

  // Lays out one row per live beam, and takes blocks for their new tokens.
  template <class Sequences>
  void build_step(const Sequences& running, KvBlocks& blocks) noexcept {
    clear_step();
    for (const auto& sequence : running) stepping_.push_back(sequence.get());
    lay_out_step(blocks);
  }
  // Lays out only padding rows, which no request owns. REQUIRES: `bucket` is one of the steps'
  // buckets.
  void build_step(const GraphBucket& bucket) noexcept;
  backbone::DecoderStep step() const noexcept;
  std::span<const kernels::KvCopy> copies() const noexcept { return copies_; }
  uint32_t num_beams() const noexcept { return static_cast<uint32_t>(beams_.size()); }
  // Rows of the last pass of sources and of the step, padding included.
  uint32_t num_source_rows() const noexcept { return static_cast<uint32_t>(positions_.size()); }
  uint32_t num_step_rows() const noexcept { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t num_candidates() const noexcept { return num_candidates_; }

 private:
  void clear_sources() noexcept;
  void add_source(Sequence& sequence, const plan::Segment& planned, KvBlocks& blocks) noexcept;
  void pad_sources(uint32_t num_rows) noexcept;
  void fill_sources() noexcept;
  void clear_step() noexcept;
  void add_run(uint32_t slot, uint32_t num_rows) noexcept;
  void lay_out_step(KvBlocks& blocks) noexcept;
  void add_rows(Sequence& sequence, KvBlocks& blocks) noexcept;
  void pad_step(uint32_t num_rows) noexcept;
  void fill_step() noexcept;

  const GenerationBuckets& buckets_;
  std::vector<kernels::RowRange> runs_;  // rows of each tenant in this layout, without padding
  // Sources.
  const GraphBucket* source_bucket_ = nullptr;  // the sources' bucket; null: none
  bool has_more_sources_ = false;               // the plan has another pass
  std::vector<kernels::IdPiece> pieces_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> source_kv_rows_;
  std::vector<kernels::SegmentRows> segments_;
  std::vector<kernels::SegmentRows> score_matrices_;  // of the sources; empty: each has its own
  uint32_t score_matrix_ = plan::kOwnScores;          // number of the last row's
  std::vector<kernels::RowRange> source_ranges_;
  // A step.
  const GraphBucket* step_bucket_ = nullptr;  // the step's bucket; null: none
  std::vector<Sequence*> stepping_;
  const uint32_t max_blocks_;    // capacity of block_list_
  std::vector<uint32_t> beams_;  // rows of live beams
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> step_positions_;
  std::vector<uint32_t> kv_rows_;
  std::vector<kernels::KvTable> history_, memory_;
  std::vector<uint32_t> block_list_;
  std::vector<kernels::RowRange> ranges_;
  std::vector<kernels::BannedTokens> banned_of_;
  std::vector<int32_t> banned_;
  std::vector<kernels::KvCopy> copies_;
  uint32_t num_candidates_ = 0;
};

}  // namespace itif::runtime
