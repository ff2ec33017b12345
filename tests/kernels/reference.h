// The operators as they are defined, in double precision and without optimisation. They share no
// code with the kernels under test.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::kernels::reference {

// LayerNorm of one row: (x − mean) / √(variance + ε) · gamma + beta, biased variance.
std::vector<double> layer_norm(std::span<const double> row, std::span<const float> gamma,
                               std::span<const float> beta, double epsilon);

double activate(Activation activation, double x);

// activation(a · Wᵀ + bias) for a [rows, k], w [n, k]; bias may be empty.
std::vector<double> linear(std::span<const float> a, std::span<const float> w,
                           std::span<const float> bias, size_t rows, size_t n, size_t k,
                           Activation activation);

// qkv [T, 3·heads·head_size] → [T, heads·head_size].
std::vector<double> attention(std::span<const float> qkv, std::span<const uint32_t> offsets,
                              size_t num_heads, size_t head_size, double scale);

// One segment's rows [rows, hidden] → [hidden].
std::vector<double> pool(std::span<const float> x, size_t rows, size_t hidden, Pooling pooling,
                         bool normalize);

}  // namespace itif::kernels::reference
