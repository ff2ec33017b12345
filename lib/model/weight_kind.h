// The kinds of weights of a backbone family: which tensors make up each, and how it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace itif::model {

enum class Storage : uint8_t {
  kTable,   // rows in the activation type: embeddings
  kMatrix,  // a GEMM's weight, packed
  kVector,  // f32: biases, LayerNorm
};

// The possible names of a tensor; the first that the checkpoint holds is used. Without names the
// tensor is zeros: a bias that the architecture leaves out.
struct Source {
  std::vector<std::string> names;
};

// Initial values in models of random weights (itif-mkmodel, benches).
enum class Init : uint8_t { kNormal, kOne, kZero };

struct WeightKind {
  std::string name = {};  // "layer 3 qkv weight": for messages and progress
  Storage storage = Storage::kVector;
  // Stacked from the top, each of shape `source_shape`. If a matrix has more than two dimensions,
  // all after the first are its columns (a convolution over patches).
  std::vector<Source> sources = {};
  Shape source_shape = {};
  device::GemmShape gemm = {};  // kMatrix: shape of each of its GEMMs
  // kMatrix: if more than 1, each source is its own GEMM, gemm_stride_bytes() after the previous.
  uint32_t num_gemms = 1;
  Init init = Init::kNormal;
  float fill = 0;  // kMatrix, kVector: value of the store's rows that a model lacks
};

// Number of values of all sources.
inline uint64_t elements(const WeightKind& kind) {
  return kind.source_shape.elements() * kind.sources.size();
}
// Returns true if the next kind is the bias of this kind's GEMM. On some devices, the packed weight
// holds a copy of it (Device::packs_bias).
bool has_bias(const WeightKind& kind);

}  // namespace itif::model
