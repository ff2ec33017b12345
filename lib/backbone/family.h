// A backbone family: what its config.json says, which tensors its weights are, and the forward pass of
// all tenants of a batch at once. One file a family and its name in meson.build's list: nothing else
// names it. What families share stands in text_encoder.h and encoder_block.h.
//
// A family knows devices and checkpoints, but neither requests nor results: those are the runtime's.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backbone/fidelity.h"
#include "base/error.h"
#include "device/device.h"
#include "kernels/args.h"
#include "model/head.h"
#include "model/spec.h"
#include "model/weight_store.h"

namespace itif::backbone {

// A batch laid out: rows of all segments end to end, tenants ascending. Host memory; read before
// launch() returns.
struct Pass {
  uint32_t num_rows = 0;
  // Of token ids; empty where the family takes images. first_row counts from the batch's first row.
  std::span<const kernels::IdPiece> pieces;
  // One a segment, its class token's row ahead of its patches; empty where the family takes token ids.
  std::span<const kernels::ImagePixels> images = {};
  std::span<const uint32_t> positions;   // [num_rows], from 0 in each segment
  std::span<const uint8_t> token_types;  // [num_rows], or empty: all 0
  std::span<const kernels::SegmentRows> segments;
  std::span<const kernels::RowRange> ranges;  // one a GEMM: a tenant's, or a mini-batch's
  bool has_form = false;  // ranges are equally long, and segments at the end may be empty
  kernels::GemmModes gemm_mode = {};
};

// Device memory, valid until the next launch().
struct Hidden {
  const void* rows = nullptr;  // act [num_rows, hidden]
  // [num_rows]; -1 where an id was out of the group's vocabulary; nullptr: the family takes images.
  const int32_t* ids = nullptr;
};

// Owns the workspace for passes of up to MakeOptions::max_rows rows. One thread at a time.
class Backbone {
 public:
  virtual ~Backbone() = default;
  // Queues the forward pass; the results are there when the stream is synchronized.
  virtual Hidden launch(device::Stream& stream, const model::WeightView& weights,
                        const Pass& pass) noexcept = 0;
  virtual uint64_t workspace_bytes() const = 0;
};

struct MakeOptions {
  uint32_t max_rows = 0;
  Fidelity fidelity = Fidelity::kFused;  // of the weights' kinds, too: weight_kinds() in fidelity.h
};

// A GEMM of the forward pass, and how many times it runs in one.
struct GemmUse {
  device::GemmShape shape;
  uint32_t times = 1;
  uint32_t num_weights = 0;  // different ones among them, taken in turn; 0: as many as times
  bool in_step = false;      // of a decoder: over a step's live beams, not over a pass's tokens
};

// A backbone that people call by a name: "bert-base".
struct Preset {
  std::string_view name;
  model::BackboneSpec spec;
};

class Decoder;
struct DecoderOptions;

struct Family {
  std::string_view model_type;  // config.json's, and BackboneSpec::family
  model::HeadLayout heads;
  std::vector<Preset> presets;
  // From config.json and back. `origin` names the file in errors. Errors: kInvalidArgument (a field
  // missing, of the wrong type or out of range), kUnsupported (a setting that would change the
  // computation and that is not implemented, by name).
  Result<model::BackboneSpec> (*parse)(const nlohmann::json& config, const std::string& origin);
  nlohmann::ordered_json (*config)(const model::BackboneSpec& spec);
  // What a tenant's weights are, in a fixed order; tables are as long as the spec says.
  std::vector<model::WeightKind> (*weight_kinds)(const model::BackboneSpec& spec);
  std::vector<GemmUse> (*gemms)(const model::BackboneSpec& spec);
  // Allocates the workspace and prepares the device's GEMMs. Errors: kResourceExhausted, kUnsupported.
  Result<std::unique_ptr<Backbone>> (*make)(device::Device& device, const model::BackboneSpec& spec,
                                            const MakeOptions& options);
  // Instead of `make`: the family generates (decoder.h).
  Result<std::unique_ptr<Decoder>> (*make_decoder)(device::Device& device,
                                                   const model::BackboneSpec& spec,
                                                   const DecoderOptions& options) = nullptr;
};

// All there are, in alphabetical order.
std::span<const Family* const> families();
// Errors: kUnsupported, with the families that there are.
Result<const Family*> find_family(std::string_view model_type);
// The preset of any family. Errors: kNotFound, with the names there are.
Result<const Preset*> find_preset(std::string_view name);
std::string preset_names();  // "albert-base, albert-large, …"

}  // namespace itif::backbone
