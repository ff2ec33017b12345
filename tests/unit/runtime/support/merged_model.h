// Merges an adapter into its base as PEFT defines it, without the code under test: the expected
// results of the adapter are those of the merged model.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "safetensors_writer.h"

namespace itif::testing {

struct Tensor {
  std::vector<uint64_t> dims;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

inline Tensors read_tensors(const std::string& directory, const std::string& file) {
  Tensors tensors;
  const auto checkpoint = model::Checkpoint::open_file(directory, file);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  for (const std::string& name : checkpoint->names()) {
    const auto tensor = checkpoint->read_whole(name).value();
    Tensor& read = tensors[name];
    read.dims = checkpoint->find(name)->dims;
    read.values.resize(tensor.view.shape.elements());
    tensor.view.to_f32(read.values.data());
  }
  return tensors;
}

inline void write_tensors(const std::string& path, const Tensors& tensors) {
  std::vector<mkmodel::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back(
        {name, tensor.dims, [next = std::make_shared<size_t>(0), values = &tensor.values] {
           return (*values)[(*next)++];
         }});
  EXPECT_TRUE(mkmodel::write_safetensors(path, list, DType::kF32));
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// Writes base + adapter to `out`, with the base's other files.
inline void merge_model(const std::string& base, const std::string& adapter,
                        const std::string& out) {
  std::filesystem::copy(base, out, std::filesystem::copy_options::recursive);
  nlohmann::json config = read_json(base + "/config.json");
  const nlohmann::json settings = read_json(adapter + "/adapter_config.json");
  Tensors tensors = read_tensors(base, "model.safetensors");
  const std::string prefix = "base_model.model.";
  // A bare encoder's tensors have no family prefix.
  const auto in_base = [&](const std::string& name) {
    if (tensors.contains(name)) return name;
    const std::string bare = name.substr(name.find('.') + 1);
    return tensors.contains(bare) ? bare : name;
  };
  const Tensors of_adapter = read_tensors(adapter, "adapter_model.safetensors");
  for (const auto& [name, tensor] : of_adapter) {
    const std::string own = name.substr(prefix.size());
    const size_t at = own.find(".lora_A.weight");
    if (own.find(".lora_B.") != std::string::npos) continue;
    if (at == std::string::npos) {  // saved whole
      tensors[in_base(own)] = tensor;
      if (own.starts_with("classifier") && own.ends_with("bias")) {
        config["id2label"] = nlohmann::json::object();
        for (size_t i = 0; i < tensor.values.size(); ++i)
          config["id2label"][std::to_string(i)] = "LABEL_" + std::to_string(i);
      }
      continue;
    }
    const std::string module = own.substr(0, at);
    const Tensor& b = of_adapter.at(prefix + module + ".lora_B.weight");
    Tensor& weight = tensors.at(in_base(module + ".weight"));
    const size_t rank = tensor.dims[0], n = weight.dims[0], k = weight.values.size() / n;
    const double alpha = settings.at("lora_alpha").get<double>();
    const double divisor = settings.at("use_rslora").get<bool>() ? std::sqrt(rank) : rank;
    for (size_t row = 0; row < n; ++row)
      for (size_t column = 0; column < k; ++column) {
        double sum = 0;
        for (size_t r = 0; r < rank; ++r)
          sum += double{b.values[row * rank + r]} * tensor.values[r * k + column];
        weight.values[row * k + column] += static_cast<float>(sum * alpha / divisor);
      }
  }
  if (settings.at("task_type") == "SEQ_CLS") {
    std::string family = config.at("model_type").get<std::string>();
    const std::map<std::string, std::string> classes = {{"bert", "Bert"},
                                                        {"roberta", "Roberta"},
                                                        {"distilbert", "DistilBert"},
                                                        {"albert", "Albert"}};
    config["architectures"] = {classes.at(family) + "ForSequenceClassification"};
  }
  std::filesystem::remove(out + "/config.json");
  std::filesystem::remove(out + "/model.safetensors");
  write_tensors(out + "/model.safetensors", tensors);
  std::ofstream(out + "/config.json") << config.dump();
}

}  // namespace itif::testing
