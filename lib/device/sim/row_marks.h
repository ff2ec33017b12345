// Marks that simulated operators pass on instead of values, so that a test sees whose weights and
// whose tokens a result came from.
//
// A model's tensors carry its mark in their first 8 bytes. A row of activations carries, in its
// first 16 bytes, the mark of the weights that it met and a hash of the tokens that it depends on.
// An operator that meets weights of another mark spoils the row; attention mixes the hashes of a
// segment's rows. The first logit of a row is a function of both, so that a client that knows a
// tenant's mark and its own tokens knows the logit.
//
// An operator that has the members x, out, hidden and ranges passes the marks of x's rows on to
// out's. Its weights are the members weight, bias, gamma and beta. The other operators that text
// encoders with a classifier use in fused mode, and those of decoders, have code of their own. The
// rest leave rows unchanged.
//
// A token in the K/V cache has a mark at its K and one at its V. A generated token is a function of
// its row's mark (next_tokens.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operators.h"
#include "tensor/tensor_view.h"

namespace itif::device {

struct RowMark {
  uint64_t weights = 0;
  uint64_t tokens = 0;
};
inline constexpr uint64_t kSpoiled = 0xffff'ffff'ffff'ffff;

// Returns the mark of a model that `seed` names: 8 bytes that are finite numbers as f32, f16 and
// bf16, and never 0 or kSpoiled.
uint64_t model_mark(uint64_t seed) noexcept;
// Returns a tensor's mark. REQUIRES: it holds at least 8 bytes.
uint64_t mark_of(const TensorView& tensor) noexcept;

// The first logit of a request: `mark` of its model, `ids` in order with their rows of the position
// table, through `layers` attentions. REQUIRES: as many positions as ids.
float expected_logit(uint64_t mark, std::span<const int32_t> ids,
                     std::span<const uint32_t> positions, uint32_t layers);

// An encoder-decoder, as far as its tokens depend on it.
struct MarkedDecoder {
  uint32_t encoder_layers = 0, layers = 0;
  uint32_t vocab = 0;
  int32_t start = 0, end = 0;
};
// The tokens that follow a source, the end included. REQUIRES: source is not empty.
std::vector<int32_t> expected_tokens(uint64_t mark, std::span<const int32_t> source,
                                     const MarkedDecoder& decoder);
// The mark at the beginning of a row.
RowMark mark_of_row(const void* row) noexcept;
// The token that a row's logits choose: neither the first nor the last of the vocabulary.
// REQUIRES: vocab is at least 3.
int32_t marked_token(const RowMark& mark, uint32_t vocab) noexcept;

// Passes the marks of an operator's inputs on to its outputs. `act_bytes`: of an activation.
// REQUIRES: rows of at least 16 bytes.
void pass_marks(kernels::Operator op, size_t act_bytes);

}  // namespace itif::device
