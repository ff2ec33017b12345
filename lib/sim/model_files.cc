#include "sim/model_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>
#include "backbone/family.h"

namespace itif::sim {
namespace {

using nlohmann::ordered_json;

struct Tensor {
  std::string name;
  std::vector<uint64_t> dims;
  uint64_t bytes() const {
    uint64_t count = 2;  // bf16
    for (const uint64_t dim : dims) count *= dim;
    return count;
  }
};

constexpr uint64_t kLabels = 4;  // a bias of 8 bytes, which hold the mark

std::vector<Tensor> list_tensors(const model::BackboneSpec& spec, const backbone::Family& family,
                                 const model::Architecture& architecture) {
  std::vector<Tensor> tensors;
  for (const model::WeightKind& kind : family.weight_kinds(spec)) {
    const Shape& shape = kind.source_shape;
    for (const model::Source& source : kind.sources) {
      if (source.names.empty()) continue;
      // In a model with a head the encoder's tensors have a prefix: the second name.
      const std::string& name = source.names[std::min<size_t>(1, source.names.size() - 1)];
      if (std::ranges::find(tensors, name, &Tensor::name) == tensors.end())
        tensors.push_back({name, {shape.dims.begin(), shape.dims.begin() + shape.rank}});
    }
  }
  if (architecture.kind != model::HeadKind::kClassification) return tensors;
  const auto linear = [&](const std::string& module, uint64_t n) {
    tensors.push_back({module + ".weight", {n, spec.hidden}});
    tensors.push_back({module + ".bias", {n}});
  };
  if (!architecture.dense.empty())
    linear(std::string(architecture.dense), spec.hidden);
  else if (architecture.on_pooler)
    linear(fmt::format("{}.{}", family.heads.prefix, family.heads.pooler), spec.hidden);
  linear(std::string(architecture.classifier), kLabels);
  return tensors;
}

Status write_tensors(const std::vector<Tensor>& tensors, uint64_t mark, const std::string& path) {
  ordered_json header = ordered_json::object();
  uint64_t end = 0;
  for (const Tensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", "BF16"}, {"shape", tensor.dims}, {"data_offsets", {end, end + tensor.bytes()}}};
    end += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size(), data = sizeof(header_bytes) + header_bytes;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return fail(Code::kPermission, fmt::format("{}: {}", path, errno_text(errno)));
  const auto put = [file](const void* bytes, size_t count, uint64_t at) {
    return ::pwrite(file, bytes, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
  };
  bool written = put(&header_bytes, sizeof(header_bytes), 0) &&
                 put(text.data(), text.size(), sizeof(header_bytes)) &&
                 ::ftruncate(file, static_cast<off_t>(data + end)) == 0;
  uint64_t at = data;
  for (const Tensor& tensor : tensors) {
    written = written && put(&mark, sizeof(mark), at);
    at += tensor.bytes();
  }
  const int error = errno;
  ::close(file);
  if (!written)
    return fail(Code::kResourceExhausted, fmt::format("{}: {}", path, errno_text(error)));
  return {};
}

Status write_json(const ordered_json& json, const std::string& path) {
  std::ofstream file(path);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) return fail(Code::kPermission, path + " cannot be written");
  return {};
}

// Images arrive in the model's size as bytes, which it scales to [-1, 1].
Status write_preprocessor(const model::ImageInput& image, const std::string& directory) {
  const std::vector<double> half(image.channels, 0.5);
  const ordered_json config = {{"image_processor_type", "ViTImageProcessor"},
                               {"do_resize", false},
                               {"size", {{"height", image.height}, {"width", image.width}}},
                               {"do_rescale", true},
                               {"rescale_factor", 1.0 / 255},
                               {"do_normalize", true},
                               {"image_mean", half},
                               {"image_std", half}};
  return write_json(config, directory + "/preprocessor_config.json");
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::make() {
  const char* chosen = std::getenv("TMPDIR");
  std::vector<std::string> parents = {"/dev/shm", "/tmp"};
  if (chosen != nullptr && *chosen != '\0') parents = {chosen};
  std::string name;
  for (const std::string& parent : parents) {
    name = parent + "/itif-sim-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) continue;
    TemporaryDirectory directory;
    directory.path_ = std::move(name);
    return directory;
  }
  return fail(Code::kPermission, fmt::format("{}: {}", name, errno_text(errno)));
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Status write_model(const model::BackboneSpec& spec, uint64_t mark, const std::string& directory,
                   const GenerationFiles& generation) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  const auto architectures = family->heads.architectures;
  const auto kind =
      family->make_decoder ? model::HeadKind::kGeneration : model::HeadKind::kClassification;
  const auto found = std::ranges::find(architectures, kind, &model::Architecture::kind);
  if (found == architectures.end())
    return fail(Code::kUnsupported,
                fmt::format("{} has no classifier of whole texts", spec.family));
  std::error_code error;
  // Not its parents: a signal may have removed them, with everything else of this process.
  std::filesystem::create_directory(directory, error);
  if (error) return fail(Code::kPermission, fmt::format("{}: {}", directory, error.message()));
  ITIF_TRY(
      write_tensors(list_tensors(spec, *family, *found), mark, directory + "/model.safetensors"));
  ordered_json config = {{"architectures", {std::string(found->name)}}};
  config.update(family->config(spec));
  if (kind == model::HeadKind::kGeneration) {
    config["max_length"] = generation.max_output_tokens + 1;  // with the decoder's first token
    config["num_beams"] = generation.num_beams;
  } else {
    config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}, {"3", "d"}};
    config["problem_type"] = "single_label_classification";
  }
  if (spec.takes_images()) ITIF_TRY(write_preprocessor(spec.image, directory));
  return write_json(config, directory + "/config.json");
}

}  // namespace itif::sim
