#include "support/plain_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace itif::testing {
namespace {

using kernels::Activation;

float activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kGelu: x = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); break;
    case Activation::kGeluTanh:
      x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      break;
    case Activation::kRelu: x = std::max(x, 0.0); break;
    case Activation::kTanh: x = std::tanh(x); break;
    case Activation::kSilu: x = x / (1 + std::exp(-x)); break;
  }
  return static_cast<float>(x);
}

const float* floats(const void* data) {
  return static_cast<const float*>(data);
}
const float* floats(const std::byte* data) {
  return reinterpret_cast<const float*>(data);
}

void layer_norm(const float* x, const kernels::Slab& gamma, const kernels::Slab& beta,
                uint32_t slot, float epsilon, uint32_t hidden, float* out) {
  double mean = 0, variance = 0;
  for (uint32_t i = 0; i < hidden; ++i) mean += x[i];
  mean /= hidden;
  for (uint32_t i = 0; i < hidden; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance /= hidden;
  for (uint32_t i = 0; i < hidden; ++i)
    out[i] = static_cast<float>((x[i] - mean) / std::sqrt(variance + epsilon) *
                                    floats(gamma.at(slot))[i] +
                                floats(beta.at(slot))[i]);
}

void linear(const float* a, const float* weight, const float* bias, uint32_t n, uint32_t k,
            Activation activation, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    double sum = bias ? bias[i] : 0;
    for (uint32_t j = 0; j < k; ++j) sum += static_cast<double>(a[j]) * weight[size_t{i} * k + j];
    out[i] = activate(sum, activation);
  }
}

// Calls body(row, column, index) for every value of the segments' rows. `index` is the value's
// offset in [num_heads, num_rows, head_size] of each segment.
template <class Body>
void for_each_head_value(std::span<const kernels::PaddedSegment> segments, size_t num_heads,
                         size_t head_size, const Body& body) {
  for (const kernels::PaddedSegment& segment : segments)
    for (size_t head = 0; head < num_heads; ++head)
      for (size_t i = 0; i < segment.num_rows; ++i)
        for (size_t j = 0; j < head_size; ++j)
          body(segment.first_row + i, head * head_size + j,
               segment.first_row * num_heads * head_size +
                   (head * segment.num_rows + i) * head_size + j);
}

class PlainStream final : public device::ImmediateStream {
 public:
  PlainStream(std::shared_ptr<PlainDeviceState> state, const device::StreamLimits& limits)
      : state_(std::move(state)), limits_(limits) {}

  void attach_thread() override {}

  void dispatch(kernels::Operator op) override {
    if (state_->on_operator) state_->on_operator(op);
    std::visit([this](const auto* args) { run(*args); }, op);
  }

  void run(const kernels::GatherIds& args) {
    CHECK(args.pieces.size() <= limits_.max_segments);
    for (const kernels::IdPiece& piece : args.pieces) {
      for (uint32_t i = 0; i < piece.num_ids; ++i) {
        uint32_t id = 0;
        std::memcpy(&id, piece.data + size_t{i} * piece.id_bytes, piece.id_bytes);
        args.ids[piece.first_row + i] = id < args.vocab_size ? static_cast<int32_t>(id) : -1;
      }
    }
  }

  void run(const kernels::EmbedLayerNorm& args) {
    std::vector<float> sum(args.hidden);
    for (const kernels::RowRange& range : args.ranges) {
      for (uint32_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
        const size_t id = static_cast<size_t>(std::max(args.ids[row], 0));
        const size_t type = args.token_types.empty() ? 0 : args.token_types[row];
        for (uint32_t i = 0; i < args.hidden; ++i)
          sum[i] =
              floats(args.word.at(range.slot))[id * args.hidden + i] +
              floats(args.position.at(range.slot))[size_t{args.positions[row]} * args.hidden + i] +
              (args.token_type.base ? floats(args.token_type.at(range.slot))[type * args.hidden + i]
                                    : 0.0f);
        layer_norm(sum.data(), args.gamma, args.beta, range.slot, args.epsilon, args.hidden,
                   static_cast<float*>(args.out) + size_t{row} * args.hidden);
      }
    }
  }

  void run(const kernels::GatherPatches& args) {
    const uint32_t across = args.width / args.patch, down = args.height / args.patch;
    for (const kernels::ImagePixels& image : args.images) {
      std::vector<std::byte> bytes;
      for (const BytePiece& piece : image.pieces)
        bytes.insert(bytes.end(), piece.data, piece.data + piece.bytes);
      float* out = static_cast<float*>(args.out) +
                   size_t{image.first_row} * args.channels * args.patch * args.patch;
      for (uint32_t patch = 0; patch < across * down; ++patch)
        for (uint32_t c = 0; c < args.channels; ++c)
          for (uint32_t y = 0; y < args.patch; ++y)
            for (uint32_t x = 0; x < args.patch; ++x) {
              const size_t pixel = (size_t{patch / across} * args.patch + y) * args.width +
                                   (patch % across) * args.patch + x;
              const std::byte* at =
                  bytes.data() + image.skip_bytes + (pixel * args.channels + c) * image.value_bytes;
              float value = static_cast<float>(*at);
              if (image.value_bytes == 4) std::memcpy(&value, at, sizeof value);
              *out++ = image.scale ? value * image.scale[c] + image.shift[c] : value;
            }
    }
  }

  void run(const kernels::EmbedPatches& args) {
    for (const kernels::RowRange& range : args.ranges)
      for (const kernels::SegmentRows& segment : args.segments)
        for (uint32_t i = 0; i < segment.num_rows; ++i) {
          const uint32_t row = segment.first_row + i;
          if (row < range.first_row || row >= range.first_row + range.num_rows) continue;
          float* x = static_cast<float*>(args.x) + size_t{row} * args.hidden;
          const auto* token = reinterpret_cast<const float*>(args.class_token.at(range.slot));
          const auto* position = reinterpret_cast<const float*>(args.position.at(range.slot));
          for (size_t h = 0; h < args.hidden; ++h)
            x[h] = (i == 0 ? token[h] : x[h]) + position[i * args.hidden + h];
        }
  }

  void multiply(const kernels::GroupedGemm& args) {
    if (state_->on_gemm) state_->on_gemm(args);
    state_->gemms.push_back(
        {.n = args.n, .k = args.k, .mode = args.schedule.mode_of(args.n, args.k)});
    if (!args.schedule.calls().empty()) {
      PlannedGemm& planned = state_->planned_gemms.emplace_back();
      auto next = args.ranges.begin();
      for (const kernels::GemmCall& call : args.schedule.calls()) {
        planned.calls.emplace_back(next, next + call.num_ranges);
        next += call.num_ranges;
      }
      CHECK(next == args.ranges.end());
    }
    for (const kernels::RowRange& range : args.ranges)
      for (size_t row = range.first_row; row < range.first_row + range.num_rows; ++row)
        linear(floats(args.a) + row * args.k, floats(args.weights.at(range.slot)),
               args.bias.base ? floats(args.bias.at(range.slot)) : nullptr, args.n, args.k,
               args.activation, static_cast<float*>(args.out) + row * args.n);
  }

  void run(const kernels::GroupedGemms& args) {
    for (const kernels::GroupedGemm& one : args.all) multiply(one);
  }

  void run(const kernels::Attention& args) {
    const size_t hidden = size_t{args.num_heads} * args.head_size;
    for (const kernels::SegmentRows& segment : args.segments) {
      kernels::SegmentRows matrix = segment;
      if (!args.score_matrices.empty() && segment.num_rows > 0) {
        const auto found = std::ranges::find_if(args.score_matrices, [&](const auto& m) {
          return m.first_row <= segment.first_row &&
                 segment.first_row + segment.num_rows <= m.first_row + m.num_rows;
        });
        CHECK(found != args.score_matrices.end());
        matrix = *found;
      }
      for (uint32_t head = 0; head < args.num_heads; ++head)
        for (uint32_t i = 0; i < segment.num_rows; ++i)
          attend(args, hidden, head, segment.first_row + i, segment, matrix);
    }
  }

  void run(const kernels::ResidualLayerNorm& args) {
    std::vector<float> sum(args.hidden);
    for (const kernels::RowRange& range : args.ranges) {
      for (size_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
        for (uint32_t i = 0; i < args.hidden; ++i)
          sum[i] = floats(args.x)[row * args.hidden + i] +
                   (args.bias.base ? floats(args.bias.at(range.slot))[i] : 0) +
                   (args.residual ? floats(args.residual)[row * args.hidden + i] : 0);
        if (args.sum) std::ranges::copy(sum, static_cast<float*>(args.sum) + row * args.hidden);
        layer_norm(sum.data(), args.gamma, args.beta, range.slot, args.epsilon, args.hidden,
                   static_cast<float*>(args.out) + row * args.hidden);
      }
    }
  }

  void run(const kernels::PoolSegments& args) {
    for (size_t s = 0; s < args.chosen.size(); ++s) {
      const uint32_t first = args.segments[args.chosen[s]].first_row;
      const uint32_t last = first + args.segments[args.chosen[s]].num_rows;
      float* out = args.out + s * args.hidden;
      double length = 0;
      for (uint32_t i = 0; i < args.hidden; ++i) {
        const auto x = [&](size_t row) { return floats(args.x)[row * args.hidden + i]; };
        double sum = 0, most = x(first);
        for (uint32_t row = first; row < last; ++row) {
          sum += x(row);
          most = std::max<double>(most, x(row));
        }
        switch (args.pooling) {
          case kernels::Pooling::kFirst: out[i] = x(first); break;
          case kernels::Pooling::kLast: out[i] = x(last - 1); break;
          case kernels::Pooling::kMax: out[i] = static_cast<float>(most); break;
          case kernels::Pooling::kMean: out[i] = static_cast<float>(sum / (last - first)); break;
          case kernels::Pooling::kMeanSqrtLength:
            out[i] = static_cast<float>(sum / std::sqrt(last - first));
            break;
        }
        length += static_cast<double>(out[i]) * out[i];
      }
      if (args.normalize)
        for (uint32_t i = 0; i < args.hidden; ++i)
          out[i] = static_cast<float>(out[i] / std::max(std::sqrt(length), 1e-12));
    }
  }

  void run(const kernels::ToF32& args) {
    std::memcpy(args.out, args.x, args.count * sizeof(float));
  }

  void run(const kernels::SmallLinears& args) {
    for (const kernels::SmallLinear& one : args.all)
      for (size_t row = 0; row < one.rows; ++row)
        linear(one.x + row * one.k, one.weight, one.bias, one.n, one.k, one.activation,
               one.out + row * one.n);
  }

  void run(const kernels::EmbedPositions& args) {
    for (const kernels::RowRange& range : args.ranges)
      for (size_t row = range.first_row; row < range.first_row + range.num_rows; ++row)
        for (size_t i = 0; i < args.hidden; ++i) {
          const auto id = static_cast<size_t>(std::max(args.ids[row], 0));
          static_cast<float*>(args.out)[row * args.hidden + i] =
              floats(args.word.at(range.slot))[id * args.hidden + i] * args.scale +
              args.position[args.positions[row] * size_t{args.hidden} + i];
        }
  }

  void run(const kernels::AppendKv& args) {
    auto* pool = reinterpret_cast<float*>(args.pool.base);
    for (size_t row = 0; row < args.kv_rows.size(); ++row)
      for (size_t i = 0; i < args.pool.hidden && args.kv_rows[row] != kernels::kNoKvRow; ++i) {
        pool[args.pool.offset(args.kv_rows[row], args.layer, 0) + i] =
            floats(args.key)[row * args.row_stride + i];
        pool[args.pool.offset(args.kv_rows[row], args.layer, 1) + i] =
            floats(args.value)[row * args.row_stride + i];
      }
  }

  void run(const kernels::CopyKv& args) {
    auto* pool = reinterpret_cast<float*>(args.pool.base);
    const uint32_t block = args.pool.block_tokens;
    for (const kernels::KvCopy& copy : args.copies)
      for (uint32_t token = 0; token < copy.num_tokens; ++token)
        for (uint32_t layer = 0; layer < args.pool.num_layers; ++layer)
          for (const uint32_t value : {0u, 1u})
            for (size_t i = 0; i < args.pool.hidden; ++i)
              pool[args.pool.offset(copy.to * block + token, layer, value) + i] =
                  pool[args.pool.offset(copy.from * block + token, layer, value) + i];
  }

  void run(const kernels::CachedAttention& args) {
    const float* pool = floats(args.pool.base);
    for (size_t row = 0; row < args.tables.size(); ++row)
      for (uint32_t head = 0; head < args.num_heads; ++head) {
        const kernels::KvTable& table = args.tables[row];
        if (table.num_tokens == 0) continue;
        const size_t shift = size_t{head} * args.head_size;
        const auto vector_of = [&](uint32_t token, uint32_t value) {
          const uint32_t block = args.blocks[table.first + token / args.pool.block_tokens];
          const uint32_t kv_row = block * args.pool.block_tokens + token % args.pool.block_tokens;
          return pool + args.pool.offset(kv_row, args.layer, value) + shift;
        };
        const float* query = floats(args.query) + row * args.query_stride + shift;
        std::vector<double> weights(table.num_tokens);
        double most = -INFINITY, total = 0;
        for (uint32_t token = 0; token < table.num_tokens; ++token) {
          double dot = 0;
          for (uint32_t i = 0; i < args.head_size; ++i)
            dot += static_cast<double>(query[i]) * vector_of(token, 0)[i];
          weights[token] = dot * args.scale;
          most = std::max(most, weights[token]);
        }
        for (double& weight : weights) total += weight = std::exp(weight - most);
        for (uint32_t i = 0; i < args.head_size; ++i) {
          double sum = 0;
          for (uint32_t token = 0; token < table.num_tokens; ++token)
            sum += weights[token] / total * vector_of(token, 1)[i];
          static_cast<float*>(args.out)[row * args.num_heads * args.head_size + shift + i] =
              static_cast<float>(sum);
        }
      }
  }

  void run(const kernels::TopTokens& args) {
    for (size_t row = 0; row < args.rows; ++row) {
      const size_t of = args.chosen.empty() ? row : args.chosen[row];
      std::span<float> logits(args.logits + of * args.vocab, args.vocab);
      const kernels::BannedTokens banned =
          args.banned_of.empty() ? kernels::BannedTokens{} : args.banned_of[row];
      const auto ban = [&] {
        for (const int32_t token : args.banned.subspan(banned.first, banned.count))
          logits[static_cast<size_t>(token)] = -INFINITY;
      };
      if (banned.renormalizes) ban();
      double most = *std::ranges::max_element(logits), sum = 0;
      for (const float x : logits) sum += std::exp(x - most);
      ban();
      for (size_t i = 0; i < args.count; ++i) {
        const auto best = std::ranges::max_element(logits);
        const bool found = *best > -INFINITY;
        args.tokens[row * args.count + i] =
            found ? static_cast<int32_t>(best - logits.begin()) : -1;
        args.log_probabilities[row * args.count + i] =
            static_cast<float>(*best - most - std::log(sum));
        *best = -INFINITY;
      }
    }
  }

  void run(const kernels::AddLowRank& args) {
    const size_t columns = args.width / args.num_modules;
    for (const kernels::AdapterRows& adapter : args.adapters)
      for (size_t row = adapter.first_row; row < adapter.first_row + adapter.num_rows; ++row)
        for (uint32_t m = 0; m < args.num_modules; ++m) {
          const kernels::LowRankModule& module = adapter.modules[args.first_module + m];
          float* out = static_cast<float*>(args.out) + row * args.width + m * columns;
          for (size_t rank = 0; rank < module.rank; ++rank) {
            double sum = 0;
            for (size_t i = 0; i < args.k; ++i)
              sum += static_cast<double>(floats(args.x)[row * args.k + i]) *
                     floats(module.down)[i * module.rank + rank];
            for (size_t i = 0; i < columns; ++i)
              out[i] += static_cast<float>(sum * floats(module.up)[rank * columns + i]);
          }
        }
  }

  void run(const kernels::BiasActivation& args) {
    for (const kernels::RowRange& range : args.ranges)
      for (size_t row = range.first_row; row < range.first_row + range.num_rows; ++row)
        for (size_t i = 0; i < args.width; ++i) {
          float& x = static_cast<float*>(args.x)[row * args.width + i];
          x = activate(x + (args.bias.base ? floats(args.bias.at(range.slot))[i] : 0.0f),
                       args.activation);
        }
  }

  void run(const kernels::SplitHeads& args) {
    for (const kernels::HeadPart& part : args.parts)
      for (const kernels::RowRange& range : args.ranges)
        for_each_head_value(args.segments, args.num_heads, args.head_size,
                            [&](size_t row, size_t column, size_t by_heads) {
                              if (row < range.first_row || row >= range.first_row + range.num_rows)
                                return;
                              const size_t at = row * args.num_heads * args.head_size + column;
                              static_cast<float*>(part.out)[by_heads] =
                                  floats(part.x)[at] +
                                  (part.bias.base ? floats(part.bias.at(range.slot))[column] : 0);
                            });
  }

  void run(const kernels::MergeHeads& args) {
    for_each_head_value(
        args.segments, args.num_heads, args.head_size,
        [&](size_t row, size_t column, size_t by_heads) {
          static_cast<float*>(args.out)[row * args.num_heads * args.head_size + column] =
              floats(args.x)[by_heads];
        });
  }

  void run(const kernels::BatchedGemm& args) {
    for (const kernels::MatrixBatch& batch : args.batches)
      for (size_t i = 0; i < batch.count; ++i) {
        const float* a = floats(args.a) + batch.a + i * batch.m * batch.k;
        const float* b = floats(args.b) + batch.b + i * batch.n * batch.k;
        float* out = static_cast<float*>(args.out) + batch.out + i * batch.m * batch.n;
        for (size_t r = 0; r < batch.m; ++r)
          for (size_t c = 0; c < batch.n; ++c) {
            double sum = 0;
            for (size_t j = 0; j < batch.k; ++j)
              sum += static_cast<double>(a[r * batch.k + j]) *
                     (args.is_b_transposed ? b[c * batch.k + j] : b[j * batch.n + c]);
            out[r * batch.n + c] = static_cast<float>(sum);
          }
      }
  }

  void run(const kernels::Softmax& args) {
    for (const kernels::PaddedSegment& segment : args.segments)
      for (size_t row = 0; row < size_t{args.num_heads} * segment.num_rows; ++row) {
        float* x = static_cast<float*>(args.x) + segment.first_score + row * segment.num_rows;
        double most = -INFINITY, sum = 0;
        for (size_t i = 0; i < segment.num_tokens; ++i)
          most = std::max(most, static_cast<double>(x[i]) * args.scale);
        for (size_t i = 0; i < segment.num_tokens; ++i)
          sum += std::exp(static_cast<double>(x[i]) * args.scale - most);
        for (size_t i = 0; i < segment.num_rows; ++i)
          x[i] = i < segment.num_tokens
                     ? static_cast<float>(std::exp(static_cast<double>(x[i]) * args.scale - most) /
                                          sum)
                     : 0.0f;
      }
  }

  void copy_to_host(const void* source, size_t bytes, void* target) override {
    std::memcpy(target, source, bytes);
  }

  Status synchronize() override {
    if (state_->fail_synchronize) return fail(state_->failure, "the test requested a failure");
    return {};
  }

 private:
  // Scores of keys outside the segment are masked.
  static void attend(const kernels::Attention& args, size_t hidden, uint32_t head, uint32_t row,
                     const kernels::SegmentRows& segment, const kernels::SegmentRows& matrix) {
    const uint32_t first = matrix.first_row, last = matrix.first_row + matrix.num_rows;
    const auto at = [&](size_t r, size_t part) {
      return floats(args.qkv) + r * 3 * hidden + part * hidden + size_t{head} * args.head_size;
    };
    std::vector<double> scores;
    for (uint32_t other = first; other < last; ++other) {
      double dot = 0;
      for (uint32_t i = 0; i < args.head_size; ++i)
        dot += static_cast<double>(at(row, 0)[i]) * at(other, 1)[i];
      const bool is_masked =
          other < segment.first_row || other >= segment.first_row + segment.num_rows;
      scores.push_back(is_masked ? -INFINITY : dot * args.scale);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    float* out = static_cast<float*>(args.out) + row * hidden + size_t{head} * args.head_size;
    for (uint32_t i = 0; i < args.head_size; ++i) {
      double value = 0;
      for (uint32_t other = first; other < last; ++other)
        value += scores[other - first] / sum * at(other, 2)[i];
      out[i] = static_cast<float>(value);
    }
  }

  std::shared_ptr<PlainDeviceState> state_;
  const device::StreamLimits limits_;
};

}  // namespace

std::unique_ptr<device::Stream> make_plain_stream(std::shared_ptr<PlainDeviceState> state,
                                                  const device::StreamLimits& limits) {
  return std::make_unique<PlainStream>(std::move(state), limits);
}

}  // namespace itif::testing
