#include "workload/operator_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/tensor_view.h"

namespace itif::bench {

std::vector<float> read_values(device::Device& device, const void* data, size_t count, DType type) {
  std::vector<std::byte> raw(count * dtype_bytes(type));
  device.download(data, raw.size(), raw.data());
  std::vector<float> values(count);
  TensorView{raw.data(), type, {count}}.to_f32(values.data());
  return values;
}

Status check_rows(const std::string& name, std::span<const float> got, uint32_t num_rows,
                  uint32_t width, double tolerance,
                  const std::function<std::vector<double>(uint32_t row)>& expected) {
  const std::set<uint32_t> rows = {0, 1 % num_rows, num_rows / 3, num_rows / 2, num_rows - 1};
  for (const uint32_t row : rows) {
    const std::vector<double> wanted = expected(row);
    for (uint32_t i = 0; i < width; ++i) {
      const double found = got[size_t{row} * width + i];
      if (!(std::abs(found - wanted[i]) <= tolerance * std::max(1.0, std::abs(wanted[i]))))
        return fail(Code::kInternal, fmt::format("{}: element [{}, {}] is {}, must be {}", name,
                                                 row, i, found, wanted[i]));
    }
  }
  return {};
}

std::vector<double> plain_layer_norm(std::vector<double> row, std::span<const float> gamma,
                                     std::span<const float> beta, double epsilon) {
  const auto size = static_cast<double>(row.size());
  double mean = 0, variance = 0;
  for (const double x : row) mean += x / size;
  for (const double x : row) variance += (x - mean) * (x - mean) / size;
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = (row[i] - mean) / std::sqrt(variance + epsilon) * gamma[i] + beta[i];
  return row;
}

double plain_gelu(double x) {
  return x / 2 * std::erfc(-x * M_SQRT1_2);
}

std::vector<double> plain_attention(std::span<const float> qkv, uint32_t row, uint32_t first,
                                    uint32_t last, uint32_t heads, uint32_t head_size,
                                    double scale) {
  const size_t hidden = size_t{heads} * head_size;
  const auto at = [&](size_t r, size_t part, size_t i) {
    return double{qkv[r * 3 * hidden + part * hidden + i]};
  };
  std::vector<double> out(hidden), scores(last - first);
  for (size_t begin = 0; begin < hidden; begin += head_size) {
    for (uint32_t other = first; other < last; ++other) {
      double& score = scores[other - first] = 0;
      for (size_t i = begin; i < begin + head_size; ++i) score += at(row, 0, i) * at(other, 1, i);
      score *= scale;
    }
    const double most = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (uint32_t other = first; other < last; ++other)
      for (size_t i = begin; i < begin + head_size; ++i)
        out[i] += scores[other - first] / sum * at(other, 2, i);
  }
  return out;
}

}  // namespace itif::bench
