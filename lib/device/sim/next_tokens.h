// The tokens that a simulated decoder generates. A device that computes nothing cannot find the
// end of a text, so the source names it: its first token is the number of tokens to generate, the
// end token included.
//
// The operators of an encoder-decoder carry that number to the choice of the next token. GatherIds
// gives each row its token, AppendKv writes the tokens of a source's rows to the K/V cache, and
// CachedAttention names the K/V rows of each sequence: in a step's first layer first the sequence's
// own, then its source's.
//
// The candidates of a beam are distinct. The first one continues the text, or ends it; a search
// with several beams therefore answers what a greedy one does.
//
// A stream has its own. Owned by the stream's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/operators.h"

namespace itif::device {

inline constexpr int32_t kEndToken = 0;  // as in every Marian model that the simulator writes

class NextTokens {
 public:
  // `act_bytes`: of an activation, if marks are passed on (row_marks.h); tokens are then functions
  // of their row's mark. 0: all tokens but the end are equal.
  explicit NextTokens(size_t act_bytes) : act_bytes_(act_bytes) {}

  // Follows an operator. TopTokens writes its results. REQUIRES: pass_marks() has been called.
  void follow(kernels::Operator op);

  // The operators that it follows. The others change nothing.
  void operator()(const kernels::GatherIds* args);
  void operator()(const kernels::AppendKv* args);
  void operator()(const kernels::CachedAttention* args);
  void operator()(const kernels::TopTokens* args) const;
  template <class Args>
  void operator()(const Args*) const noexcept {}

 private:
  struct Table {
    uint32_t first_kv_row = 0, num_tokens = 0;
  };
  // Returns true if the sequence of a step's row ends with the next token.
  bool ends(uint32_t row) const;
  int32_t continuation(const kernels::TopTokens& args, uint32_t row) const;

  const size_t act_bytes_;
  std::vector<int32_t> row_ids_;            // of the last GatherIds
  std::vector<int32_t> kv_ids_;             // the token of each K/V row
  std::vector<Table> histories_, sources_;  // of a step's rows
  uint32_t num_attentions_ = 0;             // in the step's first layer, so far
};

}  // namespace itif::device
