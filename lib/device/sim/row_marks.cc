#include "device/sim/row_marks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

namespace itif::device {
namespace {

// SplitMix64's finaliser: every input bit changes every output bit with probability near 1/2.
uint64_t mix(uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t token_hash(int32_t id, uint32_t position) noexcept {
  return mix(static_cast<uint64_t>(static_cast<uint32_t>(id)) << 32 | position);
}
// A row after attention: `all` is the sum over the segment of attended().
uint64_t attended(uint64_t tokens, uint64_t index) noexcept {
  return mix(tokens + 2 * index + 1);
}
uint64_t after_attention(uint64_t tokens, uint64_t all) noexcept {
  return mix(tokens ^ all);
}

float logit(const RowMark& mark) noexcept {
  // 24 bits, in [-2, 2).
  return static_cast<float>(mix(mark.weights ^ mix(mark.tokens)) >> 40) * 0x1.0p-22f - 2;
}

uint64_t read_mark(const std::byte* at) noexcept {
  uint64_t mark;
  std::memcpy(&mark, at, sizeof(mark));
  return mark;
}

struct Rows {
  std::byte* base;
  size_t stride_bytes;
  RowMark read(size_t row) const noexcept {
    RowMark mark;
    std::memcpy(&mark, base + row * stride_bytes, sizeof(mark));
    return mark;
  }
  void write(size_t row, const RowMark& mark) const noexcept {
    std::memcpy(base + row * stride_bytes, &mark, sizeof(mark));
  }
};

Rows rows_at(const void* base, size_t width, size_t value_bytes) noexcept {
  return {static_cast<std::byte*>(const_cast<void*>(base)), width * value_bytes};
}

// Returns true if the segment's scores are computed: its own, or those of a score matrix that it
// lies in. A mask keeps each segment of a matrix to itself.
bool has_scores(const kernels::Attention& args, const kernels::SegmentRows& segment) noexcept {
  if (args.score_matrices.empty()) return true;
  const auto next = std::ranges::upper_bound(args.score_matrices, segment.first_row, {},
                                             &kernels::SegmentRows::first_row);
  if (next == args.score_matrices.begin()) return false;
  const kernels::SegmentRows& matrix = *std::prev(next);
  return segment.first_row + segment.num_rows <= matrix.first_row + matrix.num_rows;
}

// Spoils the mark of rows that met weights of another model, or of none.
void meet(const kernels::Slab& slab, uint32_t slot, RowMark& mark) noexcept {
  if (slab.base != nullptr && read_mark(slab.at(slot)) != mark.weights) mark.weights = kSpoiled;
}

// An operator of the whole pass whose out[r] depends on x[r] and the weights of r's tenant, by the
// names of its members.
template <class Args>
concept RowByRow = requires(const Args& args) {
  args.x;
  args.out;
  args.hidden;
  args.ranges;
};

struct Pass {
  size_t act_bytes;

  // Operators of other families and modes leave rows unchanged.
  template <class Args>
  void operator()(const Args*) const noexcept {}
  template <RowByRow Args>
  void operator()(const Args* args) const noexcept {
    const Rows x = rows_at(args->x, args->hidden, act_bytes);
    for (const kernels::RowRange& range : args->ranges)
      for (uint32_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
        RowMark mark = x.read(row);
        if constexpr (requires { args->residual; })
          if (args->residual != nullptr &&
              rows_at(args->residual, args->hidden, act_bytes).read(row).weights != mark.weights)
            mark.weights = kSpoiled;
        if constexpr (requires { args->weight; }) meet(args->weight, range.slot, mark);
        if constexpr (requires { args->bias; }) meet(args->bias, range.slot, mark);
        if constexpr (requires { args->gamma; }) meet(args->gamma, range.slot, mark);
        if constexpr (requires { args->beta; }) meet(args->beta, range.slot, mark);
        if constexpr (requires { args->sum; })
          if (args->sum != nullptr) rows_at(args->sum, args->hidden, act_bytes).write(row, mark);
        rows_at(args->out, args->hidden, act_bytes).write(row, mark);
      }
  }

  void operator()(const kernels::GatherIds* args) const noexcept {
    for (const kernels::IdPiece& piece : args->pieces)
      for (uint32_t i = 0; i < piece.num_ids; ++i) {
        uint32_t id = 0;
        std::memcpy(&id, piece.data + size_t{i} * piece.id_bytes, piece.id_bytes);
        args->ids[piece.first_row + i] =
            id < args->vocab_size ? static_cast<int32_t>(id) : int32_t{-1};
      }
  }
  void operator()(const kernels::EmbedLayerNorm* args) const noexcept {
    const Rows out = rows_at(args->out, args->hidden, act_bytes);
    for (const kernels::RowRange& range : args->ranges) {
      RowMark mark = {.weights = read_mark(args->word.at(range.slot))};
      if (mark.weights == 0) mark.weights = kSpoiled;
      for (const kernels::Slab& slab : {args->position, args->token_type, args->gamma, args->beta})
        meet(slab, range.slot, mark);
      for (uint32_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
        mark.tokens = token_hash(args->ids[row], args->positions[row]);
        out.write(row, mark);
      }
    }
  }
  void operator()(const kernels::GroupedGemms* args) const noexcept {
    for (const kernels::GroupedGemm& gemm : args->all) {
      const Rows in = rows_at(gemm.a, gemm.k, act_bytes);
      const Rows out = rows_at(gemm.out, gemm.n, gemm.f32_out ? sizeof(float) : act_bytes);
      for (const kernels::RowRange& range : gemm.ranges)
        for (uint32_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
          RowMark mark = in.read(row);
          meet(gemm.weights, range.slot, mark);
          meet(gemm.bias, range.slot, mark);
          out.write(row, mark);
        }
    }
  }
  void operator()(const kernels::Attention* args) const noexcept {
    const size_t hidden = size_t{args->num_heads} * args->head_size;
    const Rows in = rows_at(args->qkv, 3 * hidden, act_bytes);
    const Rows out = rows_at(args->out, hidden, act_bytes);
    for (const kernels::SegmentRows& segment : args->segments) {
      uint64_t all = 0;
      bool is_right = has_scores(*args, segment);
      for (uint32_t i = 0; i < segment.num_rows; ++i) {
        const RowMark mark = in.read(segment.first_row + i);
        all += attended(mark.tokens, i);
        is_right &= mark.weights == in.read(segment.first_row).weights;
      }
      for (uint32_t i = 0; i < segment.num_rows; ++i) {
        RowMark mark = in.read(segment.first_row + i);
        if (!is_right) mark.weights = kSpoiled;
        mark.tokens = after_attention(mark.tokens, all);
        out.write(segment.first_row + i, mark);
      }
    }
  }
  void operator()(const kernels::PoolSegments* args) const noexcept {
    const Rows x = rows_at(args->x, args->hidden, act_bytes);
    const Rows out = rows_at(args->out, args->hidden, sizeof(float));
    for (size_t i = 0; i < args->chosen.size(); ++i)
      out.write(i, x.read(args->segments[args->chosen[i]].first_row));
  }
  void operator()(const kernels::SmallLinears* args) const noexcept {
    for (const kernels::SmallLinear& linear : args->all) {
      const Rows in = rows_at(linear.x, linear.k, sizeof(float));
      for (uint32_t row = 0; row < linear.rows; ++row) {
        RowMark mark = in.read(row);
        for (const float* weights : {linear.weight, linear.bias})
          if (weights != nullptr &&
              read_mark(reinterpret_cast<const std::byte*>(weights)) != mark.weights)
            mark.weights = kSpoiled;
        if (linear.activation != kernels::Activation::kNone) {  // not the last layer
          rows_at(linear.out, linear.n, sizeof(float)).write(row, mark);
          continue;
        }
        std::fill_n(linear.out + size_t{row} * linear.n, linear.n, 0.0f);
        linear.out[size_t{row} * linear.n] = logit(mark);
      }
    }
  }
};

}  // namespace

uint64_t model_mark(uint64_t seed) noexcept {
  // Clears the highest bit of the exponent of each 16-bit value, so that none is Inf or NaN.
  return (mix(seed) & 0xbfff'bfff'bfff'bfffu) | 1;
}

uint64_t mark_of(const TensorView& tensor) noexcept {
  return read_mark(tensor.data);
}

float expected_logit(uint64_t mark, std::span<const int32_t> ids,
                     std::span<const uint32_t> positions, uint32_t layers) {
  std::vector<uint64_t> rows(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) rows[i] = token_hash(ids[i], positions[i]);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    uint64_t all = 0;
    for (size_t i = 0; i < rows.size(); ++i) all += attended(rows[i], i);
    for (uint64_t& row : rows) row = after_attention(row, all);
  }
  return logit({.weights = mark, .tokens = rows.front()});
}

void pass_marks(kernels::Operator op, size_t act_bytes) {
  std::visit(Pass{act_bytes}, op);
}

}  // namespace itif::device
