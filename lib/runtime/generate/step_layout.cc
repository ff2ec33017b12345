#include "runtime/generate/step_layout.h"

#include <algorithm>
#include <utility>

namespace itif::runtime {
namespace {

constexpr uint32_t kBlockTokens = backbone::Decoder::kBlockTokens;

uint32_t weight_slot_of(const Sequence& sequence) noexcept {
  return sequence.model->weight_slot;
}

RequestIds ids_of(const Sequence& sequence) noexcept {
  return {*sequence.request, sequence.prepared};
}

}  // namespace

void Sequence::continue_beams(KvBlocks& blocks) noexcept {
  const std::span<const uint32_t> parents = search.parents();
  next.resize(parents.size());
  for (size_t beam = 0; beam < parents.size(); ++beam) {
    next[beam] = tables[parents[beam]];
    for (const uint32_t block : next[beam]) blocks.share(block);
  }
  for (const std::vector<uint32_t>& table : tables)
    for (const uint32_t block : table) blocks.release(block);
  std::swap(tables, next);
}

void SequenceBlocks::release_all(KvBlocks& blocks) noexcept {
  for (std::vector<uint32_t>& table : tables) {
    for (const uint32_t block : table) blocks.release(block);
    table.clear();
  }
  for (const uint32_t block : memory) blocks.release(block);
  memory.clear();
  blocks.unreserve(reserved_blocks);
  reserved_blocks = 0;
}

StepLayout::StepLayout(uint32_t max_beams, uint32_t max_source_tokens, uint32_t max_positions,
                       const GenerationBuckets& buckets)
    : buckets_(buckets), max_blocks_(backbone::Decoder::max_blocks(max_beams, max_positions)) {
  size_t pieces = max_source_tokens, segments = max_beams, source_ranges = max_beams;
  for (const GraphBucket& bucket : buckets.sources.all()) {
    pieces = std::max<size_t>(pieces, bucket.num_pieces);
    segments = std::max<size_t>(segments, bucket.num_segments);
    source_ranges = std::max<size_t>(source_ranges, bucket.num_ranges);
  }
  runs_.reserve(max_beams);
  pieces_.reserve(pieces);
  positions_.reserve(max_source_tokens);
  source_kv_rows_.reserve(max_source_tokens);
  segments_.reserve(segments);
  score_matrices_.reserve(segments);
  source_ranges_.reserve(source_ranges);
  const size_t rows = std::max(max_beams, buckets.steps.max_rows());
  stepping_.reserve(max_beams);
  beams_.reserve(max_beams);
  tokens_.reserve(rows);
  step_positions_.reserve(rows);
  kv_rows_.reserve(rows);
  history_.reserve(rows);
  memory_.reserve(rows);
  block_list_.reserve(max_blocks_);
  ranges_.reserve(rows);
  banned_of_.reserve(max_beams);
  copies_.reserve(max_beams);
}

// REQUIRES: the rows of a slot are added consecutively.
void StepLayout::add_run(uint32_t slot, uint32_t num_rows) noexcept {
  if (runs_.empty() || runs_.back().slot != slot) runs_.push_back({0, 0, slot});
  runs_.back().num_rows += num_rows;
}

void StepLayout::clear_sources() noexcept {
  runs_.clear();
  source_bucket_ = nullptr;
  has_more_sources_ = false;
  score_matrices_.clear();
  score_matrix_ = plan::kOwnScores;
  pieces_.clear();
  positions_.clear();
  source_kv_rows_.clear();
  segments_.clear();
  source_ranges_.clear();
}

void StepLayout::build_sources(std::span<Sequence* const> entered, const plan::Plan& plan,
                               const plan::Pass& pass, KvBlocks& blocks) noexcept {
  clear_sources();
  has_more_sources_ = &pass != &plan.passes.back();
  const auto planned = std::span(plan.segments).subspan(pass.first_segment, pass.num_segments);
  size_t num_pieces = 0;
  for (const plan::Segment& segment : planned) {
    add_run(segment.slot, segment.num_rows);
    num_pieces += ids_of(*entered[segment.item]).num_pieces();
  }
  source_bucket_ = buckets_.sources.find(runs_, planned.size(), num_pieces);
  auto next = planned.begin();
  for (const kernels::RowRange& run : runs_) {
    const auto first_row = static_cast<uint32_t>(positions_.size());
    while (positions_.size() < first_row + run.num_rows) {
      add_source(*entered[next->item], *next, blocks);
      ++next;
    }
    pad_sources(append_ranges(source_bucket_, first_row, run.num_rows, run.slot, source_ranges_));
  }
  if (source_bucket_ != nullptr) fill_sources();
}

void StepLayout::add_source(Sequence& sequence, const plan::Segment& planned,
                            KvBlocks& blocks) noexcept {
  const auto first_row = static_cast<uint32_t>(positions_.size());
  const uint32_t rows = sequence.source_tokens;
  ids_of(sequence).append_to(pieces_, first_row);
  segments_.push_back({first_row, rows});
  for (uint32_t token = 0; token < rows; ++token) {
    if (token % kBlockTokens == 0) sequence.memory.push_back(blocks.take());
    source_kv_rows_.push_back(sequence.memory.back() * kBlockTokens + token % kBlockTokens);
    positions_.push_back(token);
  }
  pad_sources(first_row + planned.num_rows);
  if (planned.score_matrix == plan::kOwnScores) return;
  if (std::exchange(score_matrix_, planned.score_matrix) != planned.score_matrix)
    score_matrices_.push_back({first_row, 0});
  // A bucket's padding between two ranges is part of a matrix that both have rows of.
  score_matrices_.back().num_rows =
      static_cast<uint32_t>(positions_.size()) - score_matrices_.back().first_row;
}

void StepLayout::pad_sources(uint32_t num_rows) noexcept {
  positions_.resize(num_rows, 0);
  source_kv_rows_.resize(num_rows, kernels::kNoKvRow);
}

void StepLayout::fill_sources() noexcept {
  const auto next_row = static_cast<uint32_t>(positions_.size());
  pad_sources(fill_ranges(*source_bucket_, next_row, source_ranges_));
  const kernels::SegmentRows empty{static_cast<uint32_t>(positions_.size()), 0};
  segments_.resize(source_bucket_->num_segments, empty);
  if (!score_matrices_.empty()) score_matrices_.resize(source_bucket_->num_segments, empty);
  pieces_.resize(source_bucket_->num_pieces);
}

void StepLayout::build_sources(const GraphBucket& bucket) noexcept {
  clear_sources();
  source_bucket_ = &bucket;
  fill_sources();
}

backbone::Pass StepLayout::sources() const noexcept {
  return {.num_rows = static_cast<uint32_t>(positions_.size()),
          .pieces = pieces_,
          .positions = positions_,
          .token_types = {},
          .segments = segments_,
          .score_matrices = score_matrices_,
          .ranges = source_ranges_,
          .has_bucket = source_bucket_ != nullptr,
          .has_more_inputs = has_more_sources_};
}

void StepLayout::clear_step() noexcept {
  runs_.clear();
  step_bucket_ = nullptr;
  stepping_.clear();
  beams_.clear();
  tokens_.clear();
  step_positions_.clear();
  kv_rows_.clear();
  history_.clear();
  memory_.clear();
  block_list_.clear();
  ranges_.clear();
  banned_of_.clear();
  banned_.clear();
  copies_.clear();
  num_candidates_ = 1;
}

void StepLayout::lay_out_step(KvBlocks& blocks) noexcept {
  for (const Sequence* sequence : stepping_)
    add_run(weight_slot_of(*sequence), sequence->search.num_beams());
  step_bucket_ = buckets_.steps.find(runs_, 0, 0);
  size_t next = 0;
  for (const kernels::RowRange& run : runs_) {
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    while (next < stepping_.size() && weight_slot_of(*stepping_[next]) == run.slot)
      add_rows(*stepping_[next++], blocks);
    pad_step(append_ranges(step_bucket_, first_row, run.num_rows, run.slot, ranges_));
  }
  if (step_bucket_ != nullptr) fill_step();
}

void StepLayout::add_rows(Sequence& sequence, KvBlocks& blocks) noexcept {
  const BeamSearch& search = sequence.search;
  const uint32_t position = search.position();
  const auto memory_first = static_cast<uint32_t>(block_list_.size());
  block_list_.insert(block_list_.end(), sequence.memory.begin(), sequence.memory.end());
  for (uint32_t beam = 0; beam < search.num_beams(); ++beam) {
    std::vector<uint32_t>& table = sequence.tables[beam];
    const uint32_t within = position % kBlockTokens;
    if (within == 0) {
      table.push_back(blocks.take());
    } else if (blocks.is_shared(table.back())) {
      const uint32_t own = blocks.take();
      copies_.push_back({table.back(), own, within});
      blocks.release(table.back());
      table.back() = own;
    }
    beams_.push_back(static_cast<uint32_t>(tokens_.size()));
    kv_rows_.push_back(table.back() * kBlockTokens + within);
    history_.push_back({static_cast<uint32_t>(block_list_.size()), position + 1});
    memory_.push_back({memory_first, sequence.source_tokens});
    block_list_.insert(block_list_.end(), table.begin(), table.end());
    tokens_.push_back(search.last_token(beam));
    step_positions_.push_back(position);

    const auto first_banned = static_cast<uint32_t>(banned_.size());
    for (const std::vector<int32_t>& word : sequence.config().bad_words)
      if (word.size() == 1) banned_.push_back(word.front());
    search.append_banned(beam, banned_);
    banned_of_.push_back({.first = first_banned,
                          .count = static_cast<uint32_t>(banned_.size()) - first_banned,
                          .renormalizes = sequence.config().renormalize});
  }
  num_candidates_ = std::max(num_candidates_, sequence.config().candidates_per_beam());
}

void StepLayout::pad_step(uint32_t num_rows) noexcept {
  tokens_.resize(num_rows, 0);
  step_positions_.resize(num_rows, 0);
  kv_rows_.resize(num_rows, kernels::kNoKvRow);
  history_.resize(num_rows, {});
  memory_.resize(num_rows, {});
}

void StepLayout::fill_step() noexcept {
  pad_step(fill_ranges(*step_bucket_, static_cast<uint32_t>(tokens_.size()), ranges_));
  if (block_list_.empty()) block_list_.push_back(0);  // every real step has a nonempty list
}

void StepLayout::build_step(const GraphBucket& bucket) noexcept {
  clear_step();
  step_bucket_ = &bucket;
  fill_step();
}

backbone::DecoderStep StepLayout::step() const noexcept {
  return {.tokens = tokens_,
          .positions = step_positions_,
          .kv_rows = kv_rows_,
          .history = history_,
          .memory = memory_,
          .blocks = block_list_,
          .max_blocks = max_blocks_,
          .ranges = ranges_,
          .has_bucket = step_bucket_ != nullptr,
          .beams = beams_,
          .banned_of = banned_of_,
          .banned = banned_,
          .num_candidates = num_candidates_};
}

}  // namespace itif::runtime
