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

// Returns the K (0) or V (1) of a token in the cache.
std::byte* kv_at(const kernels::KvPool& pool, uint32_t kv_row, uint32_t layer, uint32_t is_value,
                 size_t act_bytes) noexcept {
  return pool.base + pool.offset(kv_row, layer, is_value) * act_bytes;
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
          // Stacked modules: a decoder reads keys and values on their own.
          if (gemm.n % gemm.k != 0 || gemm.f32_out) continue;
          for (uint32_t at = gemm.k; at < gemm.n; at += gemm.k)
            std::memcpy(out.base + row * out.stride_bytes + at * act_bytes, &mark, sizeof(mark));
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
  void operator()(const kernels::EmbedPositions* args) const noexcept {
    const Rows out = rows_at(args->out, args->hidden, act_bytes);
    for (const kernels::RowRange& range : args->ranges) {
      RowMark mark = {.weights = read_mark(args->word.at(range.slot))};
      if (mark.weights == 0) mark.weights = kSpoiled;
      for (uint32_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
        mark.tokens = token_hash(args->ids[row], args->positions[row]);
        out.write(row, mark);
      }
    }
  }
  void operator()(const kernels::AppendKv* args) const noexcept {
    const Rows keys = rows_at(args->key, args->row_stride, act_bytes);
    const Rows values = rows_at(args->value, args->row_stride, act_bytes);
    for (size_t row = 0; row < args->kv_rows.size(); ++row) {
      const uint32_t kv_row = args->kv_rows[row];
      if (kv_row == kernels::kNoKvRow) continue;
      const RowMark key = keys.read(row), value = values.read(row);
      std::memcpy(kv_at(args->pool, kv_row, args->layer, 0, act_bytes), &key, sizeof(key));
      std::memcpy(kv_at(args->pool, kv_row, args->layer, 1, act_bytes), &value, sizeof(value));
    }
  }
  void operator()(const kernels::CopyKv* args) const noexcept {
    const kernels::KvPool& pool = args->pool;
    for (const kernels::KvCopy& copy : args->copies)
      for (uint32_t layer = 0; layer < pool.num_layers; ++layer)
        for (uint32_t token = 0; token < copy.num_tokens; ++token)
          for (const uint32_t is_value : {0u, 1u})
            std::memcpy(
                kv_at(pool, copy.to * pool.block_tokens + token, layer, is_value, act_bytes),
                kv_at(pool, copy.from * pool.block_tokens + token, layer, is_value, act_bytes),
                sizeof(RowMark));
  }
  void operator()(const kernels::CachedAttention* args) const noexcept {
    const Rows in = rows_at(args->query, args->query_stride, act_bytes);
    const Rows out = rows_at(args->out, size_t{args->num_heads} * args->head_size, act_bytes);
    for (size_t row = 0; row < args->tables.size(); ++row) {
      const kernels::KvTable& table = args->tables[row];
      if (table.num_tokens == 0) continue;
      RowMark mark = in.read(row);
      uint64_t all = 0;
      for (uint32_t i = 0; i < table.num_tokens; ++i) {
        const uint32_t tokens = args->pool.block_tokens;
        const uint32_t kv_row = args->blocks[table.first + i / tokens] * tokens + i % tokens;
        const RowMark key = mark_of_row(kv_at(args->pool, kv_row, args->layer, 0, act_bytes));
        const RowMark value = mark_of_row(kv_at(args->pool, kv_row, args->layer, 1, act_bytes));
        all += attended(key.tokens, i);
        if (key.weights != mark.weights || value.weights != key.weights ||
            value.tokens != key.tokens)
          mark.weights = kSpoiled;
      }
      mark.tokens = after_attention(mark.tokens, all);
      out.write(row, mark);
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

// A segment's rows after so many self-attentions.
void encode(std::vector<uint64_t>& rows, uint32_t layers) {
  for (uint32_t layer = 0; layer < layers; ++layer) {
    uint64_t all = 0;
    for (size_t i = 0; i < rows.size(); ++i) all += attended(rows[i], i);
    for (uint64_t& row : rows) row = after_attention(row, all);
  }
}

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
  encode(rows, layers);
  return logit({.weights = mark, .tokens = rows.front()});
}

RowMark mark_of_row(const void* row) noexcept {
  RowMark mark;
  std::memcpy(&mark, row, sizeof(mark));
  return mark;
}

int32_t marked_token(const RowMark& mark, uint32_t vocab) noexcept {
  return 1 + static_cast<int32_t>(mix(mark.weights ^ mix(mark.tokens)) % (vocab - 2));
}

std::vector<int32_t> expected_tokens(uint64_t mark, std::span<const int32_t> source,
                                     const MarkedDecoder& decoder) {
  std::vector<uint64_t> rows(source.size());
  for (uint32_t i = 0; i < source.size(); ++i) rows[i] = token_hash(source[i], i);
  encode(rows, decoder.encoder_layers);
  uint64_t memory = 0;
  for (size_t i = 0; i < rows.size(); ++i) memory += attended(rows[i], i);
  std::vector<uint64_t> histories(decoder.layers);  // sums over the tokens so far, of each layer
  std::vector<int32_t> tokens = {decoder.start};
  for (uint32_t i = 0; tokens.back() != decoder.end; ++i) {
    uint64_t row = token_hash(tokens.back(), i);
    for (uint64_t& history : histories) {
      history += attended(row, i);
      row = after_attention(after_attention(row, history), memory);
    }
    const bool is_last = static_cast<int32_t>(i) + 1 >= source.front();
    tokens.push_back(is_last ? decoder.end
                             : marked_token({.weights = mark, .tokens = row}, decoder.vocab));
  }
  tokens.erase(tokens.begin());
  return tokens;
}

void pass_marks(kernels::Operator op, size_t act_bytes) {
  std::visit(Pass{act_bytes}, op);
}

}  // namespace itif::device
