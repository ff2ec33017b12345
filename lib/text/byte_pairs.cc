#include "text/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace itif::text {

Result<BytePairs> BytePairs::build(const Tokens& tokens, const Merges& merges) {
  BytePairs pairs;
  for (int byte = 0; byte < 256; ++byte) {
    const auto it = tokens.find(std::string(1, static_cast<char>(byte)));
    if (it == tokens.end())
      return fail(Code::kCorrupt, fmt::format("the vocabulary has no token for byte {}", byte));
    pairs.byte_ids_[static_cast<size_t>(byte)] = it->second;
  }
  pairs.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto l = tokens.find(left), r = tokens.find(right), merged = tokens.find(left + right);
    if (l == tokens.end() || r == tokens.end() || merged == tokens.end())
      return fail(Code::kCorrupt, fmt::format("merge {} has a part or a result that is not in the "
                                              "vocabulary",
                                              rank + 1));
    pairs.merges_.try_emplace(key(l->second, r->second),
                              Merge{static_cast<uint32_t>(rank), merged->second});
  }
  return pairs;
}

// Adds the symbol and its right neighbour to the heap, if they can be merged.
void BytePairs::consider(int32_t at, Scratch& scratch) const {
  if (at < 0) return;
  const Scratch::Symbol& symbol = scratch.symbols[static_cast<size_t>(at)];
  if (symbol.next < 0) return;
  const int32_t right = scratch.symbols[static_cast<size_t>(symbol.next)].id;
  const auto it = merges_.find(key(symbol.id, right));
  if (it == merges_.end()) return;
  scratch.heap.push_back({it->second.rank, at, symbol.id, right});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

void BytePairs::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& [symbols, heap] = scratch;
  symbols.clear();
  heap.clear();
  const auto count = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({byte_ids_[static_cast<uint8_t>(word[static_cast<size_t>(i)])], i - 1,
                       i + 1 < count ? i + 1 : -1});
  for (int32_t i = 0; i < count; ++i) consider(i, scratch);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(candidate.at)];
    // The candidate is stale: one of its symbols has been merged since.
    if (left.id != candidate.left || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != candidate.right) continue;
    left.id = merges_.at(key(left.id, right.id)).id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = candidate.at;
    consider(left.previous, scratch);
    consider(candidate.at, scratch);
  }
  for (int32_t at = count > 0 ? 0 : -1; at >= 0; at = symbols[static_cast<size_t>(at)].next)
    ids.push_back(symbols[static_cast<size_t>(at)].id);
}

}  // namespace itif::text
