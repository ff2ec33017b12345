// itif-mkmodel: the command line of make_model.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "backbone/family.h"
#include "make_adapter.h"
#include "make_model.h"

namespace {

using namespace itif;

Result<DType> parse_dtype(const std::string& name) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16})
    if (name == dtype_name(type)) return type;
  return fail(Code::kInvalidArgument, fmt::format("--dtype {}: must be f32, f16 or bf16", name));
}

struct Arguments {
  std::string backbone = "bert-tiny", head = "none", dtype = "f32", directory;
  std::vector<std::string> labels;
  uint32_t layers = 0, hidden = 0, heads = 0, intermediate = 0, vocab = 0, max_positions = 0;
  uint32_t patch = 0;
  std::string image;
  uint64_t seed = 1;
  uint32_t lora_rank = 0;
  std::vector<std::string> lora_targets;
};

// An adapter over the model that the same backbone and sizes make.
Status make_adapter(const Arguments& arguments, const mkmodel::ModelOptions& model) {
  if (model.head != mkmodel::HeadChoice::kNone)
    return fail(Code::kInvalidArgument,
                "--head is for models; an adapter has its base's head, or with --labels a "
                "classifier of its own");
  ITIF_TRY(mkmodel::make_adapter({.spec = model.spec,
                                  .targets = arguments.lora_targets,
                                  .rank = arguments.lora_rank,
                                  .num_labels = static_cast<uint32_t>(model.labels.size()),
                                  .dtype = model.dtype,
                                  .seed = model.seed,
                                  .range = 0.2f},  // so that results differ from the base's
                                 arguments.directory));
  fmt::print("{}: LoRA adapter of rank {} over {}, {}, seed {}\n", arguments.directory,
             arguments.lora_rank, describe(model.spec), arguments.dtype, model.seed);
  return {};
}

// "224x224x3": height, width, channels.
Status replace_image(const std::string& text, uint32_t patch, model::BackboneSpec& spec) {
  if (text.empty() && patch == 0) return {};
  if (!spec.takes_images())
    return fail(Code::kInvalidArgument, "--image and --patch are for backbones that take images");
  model::ImageInput& image = spec.image;
  int end = 0;
  if (!text.empty() && (std::sscanf(text.c_str(), "%4ux%4ux%2u%n", &image.height, &image.width,
                                    &image.channels, &end) != 3 ||
                        static_cast<size_t>(end) != text.size()))
    return fail(
        Code::kInvalidArgument,
        fmt::format("--image {}: must be height, width and channels, as in 224x224x3", text));
  if (patch) image.patch = patch;
  spec.max_positions = image.patches() + 1;
  return {};
}

Status run(const Arguments& arguments) {
  mkmodel::ModelOptions options;
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(arguments.backbone));
  options.spec = preset->spec;
  ITIF_ASSIGN(options.head, mkmodel::parse_head(arguments.head));
  ITIF_ASSIGN(options.dtype, parse_dtype(arguments.dtype));
  const auto replace = [](uint32_t& field, uint32_t given) {
    if (given) field = given;
  };
  replace(options.spec.layers, arguments.layers);
  replace(options.spec.hidden, arguments.hidden);
  replace(options.spec.heads, arguments.heads);
  replace(options.spec.intermediate, arguments.intermediate);
  replace(options.spec.vocab, arguments.vocab);
  replace(options.spec.max_positions, arguments.max_positions);
  // A decoder gets its encoder's sizes.
  for (const auto& [key, given] : {std::pair{"decoder_layers", arguments.layers},
                                   {"decoder_attention_heads", arguments.heads},
                                   {"decoder_ffn_dim", arguments.intermediate}})
    for (model::SpecField& field : options.spec.own)
      if (field.key == key && given) field.value = uint64_t{given};
  ITIF_TRY(replace_image(arguments.image, arguments.patch, options.spec));
  options.labels = arguments.labels;
  options.seed = arguments.seed;
  if (arguments.lora_rank > 0) return make_adapter(arguments, options);
  if (!arguments.lora_targets.empty())
    return fail(Code::kInvalidArgument, "--lora-targets is for adapters: give --lora-rank, too");
  ITIF_TRY(mkmodel::make_model(options, arguments.directory));
  fmt::print("{}: {}, head {}, {}, seed {}\n", arguments.directory, describe(options.spec),
             arguments.head, arguments.dtype, arguments.seed);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Writes a Hugging Face directory of seeded random weights, for trying, testing and measuring "
      "itif.\n"
      "Example: itif-mkmodel --backbone minilm-l6 --head classification --labels spam,ham --out m"};
  app.add_option("--backbone", arguments.backbone, backbone::preset_names())->capture_default_str();
  app.add_option("--layers", arguments.layers,
                 "number of layers; this and the next five replace the backbone's")
      ->check(CLI::Range(1u, 256u));
  app.add_option("--hidden", arguments.hidden, "hidden size")->check(CLI::Range(1u, 16384u));
  app.add_option("--heads", arguments.heads, "attention heads of a layer")
      ->check(CLI::Range(1u, 512u));
  app.add_option("--intermediate", arguments.intermediate, "width of the feed-forward network")
      ->check(CLI::Range(1u, 131072u));
  app.add_option("--vocab", arguments.vocab, "tokens of the vocabulary")
      ->check(CLI::Range(5u, 1u << 22));
  app.add_option("--max-positions", arguments.max_positions, "positions of a sequence")
      ->check(CLI::Range(1u, 65536u));
  app.add_option("--image", arguments.image,
                 "image models: height, width and channels, as in 224x224x3");
  app.add_option("--patch", arguments.patch, "image models: side of a patch in pixels")
      ->check(CLI::Range(1u, 256u));
  app.add_option("--head", arguments.head,
                 "none, pooler, embedding, classification or token-classification")
      ->capture_default_str();
  app.add_option("--labels", arguments.labels, "labels of a classification head: a,b,c")
      ->delimiter(',');
  app.add_option("--dtype", arguments.dtype, "element type of the file: f32, f16 or bf16")
      ->capture_default_str();
  app.add_option(
         "--lora-rank", arguments.lora_rank,
         "write a LoRA adapter (PEFT) of this rank over such a model instead; --labels: its "
         "own classifier")
      ->check(CLI::Range(1u, 1024u));
  app.add_option(
         "--lora-targets", arguments.lora_targets,
         "modules that the adapter changes: names or their ends; query and value by default")
      ->delimiter(',');
  app.add_option("--seed", arguments.seed, "seed of the random weights")->capture_default_str();
  app.add_option("--out", arguments.directory,
                 "output directory, created if missing; must hold neither a model nor an adapter")
      ->required();
  CLI11_PARSE(app, argc, argv);
  if (itif::Status status = run(arguments); !status) {
    fmt::print(stderr, "itif-mkmodel: {}\n", status.error().message);
    return 1;
  }
  return 0;
}
