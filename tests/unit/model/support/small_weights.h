// A small model of a table, a matrix and vectors, for tests of weight stores.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint.h"
#include "model/weight_store.h"
#include "support/safetensors_text.h"
#include "support/temp_directory.h"

namespace itif::testing {

inline model::Source named(const std::string& name) {
  return {{name, "m." + name}};
}

inline std::vector<model::WeightKind> small_kinds(uint64_t table_rows) {
  using model::Storage;
  return {
      {"words", Storage::kTable, {named("words")}, {table_rows, 2}},
      {"gamma", Storage::kVector, {{{"norm.LayerNorm.weight", "norm.LayerNorm.gamma"}}}, {2}},
      {"matrix", Storage::kMatrix, {named("top"), named("bottom")}, {2, 2}, {.n = 4, .k = 2}},
      {"bias", Storage::kVector, {named("bias.top"), named("bias.bottom")}, {2}},
  };
}

// Every tensor of small_kinds(rows), filled with first, first + 1, ….
inline model::Checkpoint write_checkpoint(const TempDirectory& directory, uint64_t rows,
                                          float first) {
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors = {
      {"words", {rows, 2}}, {"norm.LayerNorm.gamma", {2}}, {"m.top", {2, 2}},
      {"m.bottom", {2, 2}}, {"m.bias.top", {2}},           {"m.bias.bottom", {2}}};
  std::string header = "{";
  uint64_t offset = 0;
  std::vector<float> values;
  for (const auto& [name, dims] : tensors) {
    const uint64_t count = dims[0] * (dims.size() > 1 ? dims[1] : 1);
    const std::string shape =
        dims.size() > 1 ? "[" + std::to_string(dims[0]) + "," + std::to_string(dims[1]) + "]"
                        : "[" + std::to_string(dims[0]) + "]";
    header += (offset ? "," : "") + entry(name, "F32", shape, offset, offset + count * 4);
    offset += count * 4;
    for (uint64_t i = 0; i < count; ++i) values.push_back(first++);
  }
  directory.write("model.safetensors", safetensors(header + "}", f32_bytes(values)));
  return model::Checkpoint::open(directory.path()).value();
}

// As write_checkpoint(directory, 3, first), except that the value at `at` is `then`.
inline model::Checkpoint write_changed_checkpoint(const TempDirectory& directory, float first,
                                                  size_t at, float then) {
  write_checkpoint(directory, 3, first);
  std::string bytes = directory.read("model.safetensors");
  constexpr size_t kValues = 6 + 2 + 4 + 4 + 2 + 2;
  std::memcpy(bytes.data() + bytes.size() - (kValues - at) * 4, &then, 4);
  directory.write("model.safetensors", bytes);
  return model::Checkpoint::open(directory.path()).value();
}

// The first `count` values of a slot's weight.
inline std::vector<float> contents(const model::WeightStore& store, size_t kind, uint32_t slot,
                                   size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), store.slab(kind).at(slot), count * sizeof(float));
  return values;
}

}  // namespace itif::testing
