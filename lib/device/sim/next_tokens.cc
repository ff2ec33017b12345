#include "device/sim/next_tokens.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "base/check.h"
#include "device/sim/row_marks.h"

namespace itif::device {
namespace {

// Below every sum of log-probabilities that a text can have before its end.
constexpr float kHopeless = -1e6f;

}  // namespace

void NextTokens::follow(kernels::Operator op) {
  std::visit(*this, op);
}

void NextTokens::operator()(const kernels::GatherIds* args) {
  num_attentions_ = 0;
  for (const kernels::IdPiece& piece : args->pieces) {
    const size_t end = size_t{piece.first_row} + piece.num_ids;
    if (row_ids_.size() < end) row_ids_.resize(end);
    for (uint32_t i = 0; i < piece.num_ids; ++i) {
      uint32_t id = 0;
      std::memcpy(&id, piece.data + size_t{i} * piece.id_bytes, piece.id_bytes);
      row_ids_[piece.first_row + i] = static_cast<int32_t>(id);
    }
  }
}

void NextTokens::operator()(const kernels::AppendKv* args) {
  if (args->layer != 0) return;
  for (size_t row = 0; row < args->kv_rows.size(); ++row) {
    const uint32_t kv_row = args->kv_rows[row];
    if (kv_row == kernels::kNoKvRow) continue;
    if (kv_ids_.size() <= kv_row) kv_ids_.resize(size_t{kv_row} + 1);
    kv_ids_[kv_row] = row < row_ids_.size() ? row_ids_[row] : 0;
  }
}

void NextTokens::operator()(const kernels::CachedAttention* args) {
  if (args->layer != 0) return;
  std::vector<Table>& tables = num_attentions_++ == 0 ? histories_ : sources_;
  tables.clear();
  for (const kernels::KvTable& table : args->tables)
    tables.push_back({.first_kv_row = table.num_tokens == 0
                                          ? 0
                                          : args->blocks[table.first] * args->pool.block_tokens,
                      .num_tokens = table.num_tokens});
}

bool NextTokens::ends(uint32_t row) const {
  CHECK(row < histories_.size() && row < sources_.size());
  const Table& source = sources_[row];
  const int32_t planned = source.num_tokens > 0 && source.first_kv_row < kv_ids_.size()
                              ? kv_ids_[source.first_kv_row]
                              : 0;
  // The history has the decoder's first token, and all that were generated before this one.
  return static_cast<int64_t>(histories_[row].num_tokens) >= planned;
}

int32_t NextTokens::continuation(const kernels::TopTokens& args, uint32_t row) const {
  if (act_bytes_ == 0) return kEndToken + 1;
  return marked_token(mark_of_row(args.logits + size_t{row} * args.vocab), args.vocab);
}

void NextTokens::operator()(const kernels::TopTokens* args) const {
  CHECK(args->vocab > args->count + 2);
  for (uint32_t i = 0; i < args->rows; ++i) {
    const uint32_t row = args->chosen.empty() ? i : args->chosen[i];
    float* scores = args->log_probabilities + size_t{i} * args->count;
    int32_t* tokens = args->tokens + size_t{i} * args->count;
    const bool is_last = ends(row);
    const int32_t first = continuation(*args, row);
    for (uint32_t c = 0; c < args->count; ++c) {
      // The tokens after `first` in order; neither the end nor the decoder's first token.
      tokens[c] =
          1 + (first - 1 + static_cast<int32_t>(c)) % (static_cast<int32_t>(args->vocab) - 2);
      scores[c] = is_last ? kHopeless : -static_cast<float>(c);
    }
    if (!is_last) continue;
    tokens[0] = kEndToken;
    scores[0] = 0;
  }
}

}  // namespace itif::device
