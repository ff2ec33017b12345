#include "runtime/step_layout.h"

#include <algorithm>
#include <numeric>

namespace itif::runtime {
namespace {

constexpr uint32_t kBlockTokens = backbone::Decoder::kBlockTokens;

// A row of slot `slot` behind those of `ranges`.
void add_range(std::vector<kernels::RowRange>& ranges, uint32_t first_row, uint32_t num_rows,
               uint32_t slot) noexcept {
  if (ranges.empty() || ranges.back().slot != slot) ranges.push_back({first_row, 0, slot});
  ranges.back().num_rows += num_rows;
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
    for (const uint32_t block : table) blocks.let_go(block);
  std::swap(tables, next);
}

void Sequence::let_go_of_all(KvBlocks& blocks) noexcept {
  for (std::vector<uint32_t>& table : tables) {
    for (const uint32_t block : table) blocks.let_go(block);
    table.clear();
  }
  for (const uint32_t block : memory) blocks.let_go(block);
  memory.clear();
  blocks.unreserve(reserved_blocks);
  reserved_blocks = 0;
}

StepLayout::StepLayout(uint32_t max_beams, uint32_t max_source_tokens, uint32_t max_positions) {
  pieces_.reserve(max_source_tokens);
  positions_.reserve(max_source_tokens);
  source_places_.reserve(max_source_tokens);
  segments_.reserve(max_beams);
  source_ranges_.reserve(max_beams);
  tokens_.reserve(max_beams);
  step_positions_.reserve(max_beams);
  places_.reserve(max_beams);
  history_.reserve(max_beams);
  memory_.reserve(max_beams);
  block_list_.reserve(size_t{2} * max_beams * ((max_positions - 1) / kBlockTokens + 1));
  ranges_.reserve(max_beams);
  banned_of_.reserve(max_beams);
  copies_.reserve(max_beams);
}

void StepLayout::clear_sources() noexcept {
  pieces_.clear();
  positions_.clear();
  source_places_.clear();
  segments_.clear();
  source_ranges_.clear();
}

void StepLayout::add_source(Sequence& sequence, size_t first_piece, KvBlocks& blocks) noexcept {
  const auto first_row = static_cast<uint32_t>(positions_.size());
  const uint32_t rows = sequence.source_tokens;
  for (size_t i = first_piece; i < pieces_.size(); ++i) pieces_[i].first_row += first_row;
  segments_.push_back({first_row, rows});
  for (uint32_t token = 0; token < rows; ++token) {
    if (token % kBlockTokens == 0) sequence.memory.push_back(blocks.take());
    source_places_.push_back(sequence.memory.back() * kBlockTokens + token % kBlockTokens);
    positions_.push_back(token);
  }
  add_range(source_ranges_, first_row, rows, sequence.request->slot);
}

backbone::Pass StepLayout::sources() const noexcept {
  return {.num_rows = static_cast<uint32_t>(positions_.size()),
          .pieces = pieces_,
          .positions = positions_,
          .token_types = {},
          .segments = segments_,
          .ranges = source_ranges_};
}

void StepLayout::clear_step() noexcept {
  tokens_.clear();
  step_positions_.clear();
  places_.clear();
  history_.clear();
  memory_.clear();
  block_list_.clear();
  ranges_.clear();
  banned_of_.clear();
  banned_.clear();
  copies_.clear();
  num_candidates_ = 0;
}

void StepLayout::add_rows(Sequence& sequence, KvBlocks& blocks) noexcept {
  const BeamSearch& search = sequence.search;
  const auto first_row = static_cast<uint32_t>(tokens_.size());
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
      blocks.let_go(table.back());
      table.back() = own;
    }
    places_.push_back(table.back() * kBlockTokens + within);
    history_.push_back({static_cast<uint32_t>(block_list_.size()), position + 1});
    memory_.push_back({memory_first, sequence.source_tokens});
    block_list_.insert(block_list_.end(), table.begin(), table.end());
    tokens_.push_back(search.last_token(beam));
    step_positions_.push_back(position);

    const auto first_banned = static_cast<uint32_t>(banned_.size());
    for (const std::vector<int32_t>& word : sequence.config().bad_words)
      if (word.size() == 1) banned_.push_back(word.front());
    search.append_banned(beam, banned_);
    banned_of_.push_back({first_banned, static_cast<uint32_t>(banned_.size()) - first_banned});
  }
  add_range(ranges_, first_row, search.num_beams(), sequence.request->slot);
  num_candidates_ = std::max(num_candidates_, sequence.config().candidates_per_beam());
}

backbone::DecoderStep StepLayout::step() const noexcept {
  return {.tokens = tokens_,
          .positions = step_positions_,
          .places = places_,
          .history = history_,
          .memory = memory_,
          .blocks = block_list_,
          .ranges = ranges_,
          .banned_of = banned_of_,
          .banned = banned_,
          .num_candidates = num_candidates_};
}

}  // namespace itif::runtime
