#include "support/reference_bert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "backbone/open_model.h"
#include "tensor/tensor_view.h"

namespace itif::testing {

ReferenceBert::ReferenceBert(const std::string& directory)
    : spec_(backbone::read_backbone_spec(directory).value()) {
  std::ifstream file(directory + "/model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor{entry["shape"], {}};
    uint64_t count = 1;
    for (uint64_t dim : tensor.dims) count *= dim;
    tensor.values.resize(count);
    const std::string type = entry["dtype"];
    const uint64_t begin = 8 + length + entry["data_offsets"][0].get<uint64_t>();
    for (uint64_t i = 0; i < count; ++i) {
      if (type == "F32") {
        std::memcpy(&tensor.values[i], &bytes[begin + i * 4], 4);
      } else {
        uint16_t half;
        std::memcpy(&half, &bytes[begin + i * 2], 2);
        tensor.values[i] = type == "BF16" ? bf16_to_f32(half) : f16_to_f32(half);
      }
    }
    tensors_[name.starts_with("bert.") ? name.substr(5) : name] = std::move(tensor);
  }
}

const ReferenceBert::Tensor& ReferenceBert::tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw std::runtime_error("no tensor " + name);
  return it->second;
}

std::vector<double> ReferenceBert::linear(const std::string& module,
                                          const std::vector<double>& x) const {
  const Tensor& weight = tensor(module + ".weight");
  const Tensor& bias = tensor(module + ".bias");
  std::vector<double> out(weight.dims[0]);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = bias.values[i];
    for (size_t j = 0; j < x.size(); ++j) out[i] += x[j] * weight.values[i * x.size() + j];
  }
  return out;
}

std::vector<double> ReferenceBert::norm(const std::string& module,
                                        const std::vector<double>& x) const {
  const Tensor& gamma = tensor(module + ".weight");
  const Tensor& beta = tensor(module + ".bias");
  const auto size = static_cast<double>(x.size());
  double mean = 0, square = 0;
  for (double value : x) mean += value / size;
  for (double value : x) square += (value - mean) * (value - mean) / size;
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back((x[i] - mean) / std::sqrt(square + spec_.layer_norm_eps) * gamma.values[i] +
                  beta.values[i]);
  return out;
}

double ReferenceBert::activate(double x) const {
  switch (spec_.activation) {
    case kernels::Activation::kRelu: return std::max(x, 0.0);
    case kernels::Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * std::pow(x, 3))));
    default: return x * std::erfc(-x * M_SQRT1_2) / 2;
  }
}

ReferenceBert::Matrix ReferenceBert::hidden(const std::vector<uint32_t>& ids,
                                            const std::vector<uint8_t>& types) const {
  const size_t tokens = ids.size(), size = spec_.hidden, head_size = spec_.head_size();
  Matrix x(tokens);
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> sum(size);
    const auto add = [&](const char* table, size_t row) {
      const Tensor& rows = tensor(std::string("embeddings.") + table + ".weight");
      for (size_t i = 0; i < size; ++i) sum[i] += rows.values[row * size + i];
    };
    add("word_embeddings", ids[t]);
    add("position_embeddings", t);
    add("token_type_embeddings", types.empty() ? 0 : types[t]);
    x[t] = norm("embeddings.LayerNorm", sum);
  }
  for (uint32_t layer = 0; layer < spec_.layers; ++layer) {
    const std::string base = "encoder.layer." + std::to_string(layer) + ".";
    Matrix q, k, v;
    for (const auto& row : x) {
      q.push_back(linear(base + "attention.self.query", row));
      k.push_back(linear(base + "attention.self.key", row));
      v.push_back(linear(base + "attention.self.value", row));
    }
    Matrix next;
    for (size_t t = 0; t < tokens; ++t) {
      std::vector<double> context(size);
      for (uint32_t head = 0; head < spec_.heads; ++head) {
        std::vector<double> weight(tokens);
        double sum = 0;
        for (size_t other = 0; other < tokens; ++other) {
          double dot = 0;
          for (size_t i = head * head_size; i < (head + 1) * head_size; ++i)
            dot += q[t][i] * k[other][i];
          sum += weight[other] = std::exp(dot / std::sqrt(static_cast<double>(head_size)));
        }
        for (size_t other = 0; other < tokens; ++other)
          for (size_t i = head * head_size; i < (head + 1) * head_size; ++i)
            context[i] += weight[other] / sum * v[other][i];
      }
      std::vector<double> row = linear(base + "attention.output.dense", context);
      for (size_t i = 0; i < size; ++i) row[i] += x[t][i];
      row = norm(base + "attention.output.LayerNorm", row);
      std::vector<double> wide = linear(base + "intermediate.dense", row);
      for (double& value : wide) value = activate(value);
      std::vector<double> out = linear(base + "output.dense", wide);
      for (size_t i = 0; i < size; ++i) out[i] += row[i];
      next.push_back(norm(base + "output.LayerNorm", out));
    }
    x = std::move(next);
  }
  return x;
}

std::vector<double> ReferenceBert::pooled(const Matrix& hidden) const {
  std::vector<double> out = linear("pooler.dense", hidden[0]);
  for (double& value : out) value = std::tanh(value);
  return out;
}

std::vector<double> ReferenceBert::classify(const std::vector<double>& x) const {
  return linear("classifier", x);
}

std::vector<double> ReferenceBert::mean(const Matrix& hidden, bool unit_length) {
  std::vector<double> out(hidden[0].size());
  double square = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    for (const auto& row : hidden) out[i] += row[i] / static_cast<double>(hidden.size());
    square += out[i] * out[i];
  }
  if (unit_length)
    for (double& value : out) value /= std::sqrt(square);
  return out;
}

std::vector<float> ReferenceBert::flat(const Matrix& matrix) {
  std::vector<float> out;
  for (const auto& row : matrix) out.insert(out.end(), row.begin(), row.end());
  return out;
}

std::vector<float> ReferenceBert::flat(const std::vector<double>& vector) {
  return {vector.begin(), vector.end()};
}

}  // namespace itif::testing
