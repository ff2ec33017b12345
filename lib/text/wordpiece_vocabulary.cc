// Builds the trie.
#include "text/wordpiece_vocabulary.h"

#include <fmt/format.h>

#include <bit>

namespace itif::text {

uint32_t WordPieceVocabulary::child_or_new(uint32_t node, uint8_t byte) {
  const uint32_t key = node << 8 | byte;
  size_t at = home_of(key);
  for (; edges_[at].child != kNone; at = (at + 1) & mask_)
    if (edges_[at].key == key) return edges_[at].child;
  edges_[at] = {key, static_cast<uint32_t>(ids_.size())};
  ids_.push_back(-1);
  return edges_[at].child;
}

Result<WordPieceVocabulary> WordPieceVocabulary::build(const Tokens& tokens,
                                                       std::string_view continuation_prefix) {
  size_t bytes = 2;  // an upper bound of the nodes: the roots, and one per byte
  for (const auto& [token, id] : tokens) bytes += token.size();
  if (bytes > kMaxNodes)
    return fail(Code::kCorrupt, fmt::format("a vocabulary of {} bytes of tokens; at most {} fit",
                                            bytes, kMaxNodes));
  WordPieceVocabulary vocabulary;
  // Sized for one node per byte, then shrunk to the nodes used (tokens share prefixes): small
  // tables are fast.
  const auto size_for = [&](size_t num_edges) {
    const size_t num_homes = std::bit_ceil(num_edges * 2);
    vocabulary.edges_.assign(num_homes, Edge{});
    vocabulary.mask_ = num_homes - 1;
    vocabulary.shift_ = 64 - std::countr_zero(num_homes);
  };
  size_for(bytes);
  vocabulary.ids_.assign(2, -1);
  for (const auto& [token, id] : tokens) {
    std::string_view piece = token;
    uint32_t node = kWordRoot;
    if (!continuation_prefix.empty() && piece.starts_with(continuation_prefix)) {
      piece.remove_prefix(continuation_prefix.size());
      node = kContinuationRoot;
    }
    if (piece.empty()) continue;
    for (const char c : piece) node = vocabulary.child_or_new(node, static_cast<uint8_t>(c));
    vocabulary.ids_[node] = id;
  }
  const std::vector<Edge> edges = std::move(vocabulary.edges_);
  size_for(vocabulary.ids_.size());
  for (const Edge& edge : edges) {
    if (edge.child == kNone) continue;
    size_t at = vocabulary.home_of(edge.key);
    while (vocabulary.edges_[at].child != kNone) at = (at + 1) & vocabulary.mask_;
    vocabulary.edges_[at] = edge;
  }
  vocabulary.ids_.shrink_to_fit();
  return vocabulary;
}

}  // namespace itif::text
