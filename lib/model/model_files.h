// The directories of a tenant's model.
#pragma once

#include <string>
#include <utility>

namespace itif::model {

struct ModelFiles {
  // A model in the format of Hugging Face or sentence-transformers, or an adapter of PEFT.
  std::string directory;
  std::string base;  // an adapter's base model; empty: `directory` is a whole model

  ModelFiles(std::string directory, std::string base = {})
      : directory(std::move(directory)), base(std::move(base)) {}
  ModelFiles(const char* directory) : directory(directory) {}

  // The directory of the base, or of the whole model.
  const std::string& whole_model() const { return base.empty() ? directory : base; }
};

}  // namespace itif::model
