// BERT for one text in double precision, written from the paper: the reference for every batch. It
// shares only the reader of config.json and the f16 and bf16 conversions with the product.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/spec.h"

namespace itif::testing {

class ReferenceBert {
 public:
  explicit ReferenceBert(const std::string& directory);

  using Matrix = std::vector<std::vector<double>>;  // [tokens][size]
  Matrix hidden(const std::vector<uint32_t>& ids, const std::vector<uint8_t>& types) const;
  std::vector<double> pooled(const Matrix& hidden) const;
  std::vector<double> classify(const std::vector<double>& x) const;
  static std::vector<double> mean(const Matrix& hidden, bool unit_length);

  static std::vector<float> flat(const Matrix& matrix);
  static std::vector<float> flat(const std::vector<double>& vector);

 private:
  struct Tensor {
    std::vector<uint64_t> dims;
    std::vector<float> values;
  };
  const Tensor& tensor(const std::string& name) const;
  std::vector<double> linear(const std::string& module, const std::vector<double>& x) const;
  std::vector<double> norm(const std::string& module, const std::vector<double>& x) const;
  double activate(double x) const;

  model::BackboneSpec spec_;
  std::map<std::string, Tensor> tensors_;  // without the "bert." prefix
};

}  // namespace itif::testing
