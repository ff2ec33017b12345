// Checks an operator before it is timed: compares some rows with plain loops in double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace itif::bench {

// Reads device memory as f32. REQUIRES: no launch in flight writes it.
std::vector<float> read_values(device::Device& device, const void* data, size_t count, DType type);

// Compares the first, the last and some other rows of `got` [num_rows, width] with expected(row).
// Errors: kInternal, with `name`, the element's indices and both numbers.
Status check_rows(const std::string& name, std::span<const float> got, uint32_t num_rows,
                  uint32_t width, double tolerance,
                  const std::function<std::vector<double>(uint32_t row)>& expected);

// LayerNorm of one row, as defined in kernels/args.h.
std::vector<double> plain_layer_norm(std::vector<double> row, std::span<const float> gamma,
                                     std::span<const float> beta, double epsilon);
double plain_gelu(double x);
// One row of self-attention over rows [first, last) of qkv [rows, 3 · heads · head_size].
std::vector<double> plain_attention(std::span<const float> qkv, uint32_t row, uint32_t first,
                                    uint32_t last, uint32_t heads, uint32_t head_size,
                                    double scale);

}  // namespace itif::bench
