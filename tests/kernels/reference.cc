#include "reference.h"

#include <algorithm>

namespace itif::kernels::reference {

std::vector<double> layer_norm(std::span<const double> row, std::span<const float> gamma,
                               std::span<const float> beta, double epsilon) {
  double mean = 0, variance = 0;
  for (double v : row) mean += v / static_cast<double>(row.size());
  for (double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
  std::vector<double> out(row.size());
  for (size_t i = 0; i < row.size(); ++i)
    out[i] = (row[i] - mean) / std::sqrt(variance + epsilon) * gamma[i] + beta[i];
  return out;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGelu: return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu: return x > 0 ? x : 0;
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSilu: return x / (1.0 + std::exp(-x));
  }
  return NAN;
}

std::vector<double> linear(std::span<const float> a, std::span<const float> w,
                           std::span<const float> bias, size_t rows, size_t n, size_t k,
                           Activation activation) {
  std::vector<double> out(rows * n);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0.0 : bias[j];
      for (size_t i = 0; i < k; ++i) sum += double{a[r * k + i]} * double{w[j * k + i]};
      out[r * n + j] = activate(activation, sum);
    }
  }
  return out;
}

std::vector<double> attention(std::span<const float> qkv, std::span<const uint32_t> offsets,
                              size_t num_heads, size_t head_size, double scale) {
  const size_t hidden = num_heads * head_size;
  const auto element = [&](size_t row, size_t which, size_t head, size_t i) {
    return double{qkv[row * 3 * hidden + which * hidden + head * head_size + i]};
  };
  std::vector<double> out(qkv.size() / 3);
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (size_t head = 0; head < num_heads; ++head) {
      for (size_t q = offsets[s]; q < offsets[s + 1]; ++q) {
        std::vector<double> p;
        for (size_t key = offsets[s]; key < offsets[s + 1]; ++key) {
          double score = 0;
          for (size_t i = 0; i < head_size; ++i)
            score += element(q, 0, head, i) * element(key, 1, head, i);
          p.push_back(score * scale);
        }
        const double largest = *std::max_element(p.begin(), p.end());
        double sum = 0;
        for (double& v : p) sum += v = std::exp(v - largest);
        for (size_t i = 0; i < head_size; ++i) {
          double value = 0;
          for (size_t j = 0; j < p.size(); ++j)
            value += p[j] / sum * element(offsets[s] + j, 2, head, i);
          out[q * hidden + head * head_size + i] = value;
        }
      }
    }
  }
  return out;
}

std::vector<double> pool(std::span<const float> x, size_t rows, size_t hidden, Pooling pooling,
                         bool normalize) {
  std::vector<double> out(hidden);
  for (size_t i = 0; i < hidden; ++i) {
    double sum = 0, largest = x[i];
    for (size_t r = 0; r < rows; ++r) {
      sum += x[r * hidden + i];
      largest = std::max(largest, double{x[r * hidden + i]});
    }
    const auto count = static_cast<double>(rows);
    switch (pooling) {
      case Pooling::kFirst: out[i] = x[i]; break;
      case Pooling::kLast: out[i] = x[(rows - 1) * hidden + i]; break;
      case Pooling::kMean: out[i] = sum / count; break;
      case Pooling::kMeanSqrtLength: out[i] = sum / std::sqrt(count); break;
      case Pooling::kMax: out[i] = largest; break;
    }
  }
  if (normalize) {
    double squares = 0;
    for (double v : out) squares += v * v;
    for (double& v : out) v /= std::max(std::sqrt(squares), 1e-12);
  }
  return out;
}

}  // namespace itif::kernels::reference
