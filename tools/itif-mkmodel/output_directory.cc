#include "output_directory.h"

#include <fmt/format.h>

#include <filesystem>

namespace itif::mkmodel {
namespace {

constexpr const char* kModelFiles[] = {"config.json", "model.safetensors",
                                       "model.safetensors.index.json"};
constexpr const char* kAdapterFiles[] = {"adapter_config.json", "adapter_model.safetensors"};

Status refuse(const std::string& directory, const char* content, const char* file) {
  std::error_code error;
  if (!std::filesystem::exists(directory + "/" + file, error)) return {};
  return fail(
      Code::kAlreadyExists,
      fmt::format("{} already holds {} ({}): choose another directory", directory, content, file));
}

}  // namespace

Status make_output_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(Code::kPermission, fmt::format("{}: {}", directory, error.message()));
  for (const char* file : kModelFiles) ITIF_TRY(refuse(directory, "a model", file));
  for (const char* file : kAdapterFiles) ITIF_TRY(refuse(directory, "an adapter", file));
  return {};
}

}  // namespace itif::mkmodel
