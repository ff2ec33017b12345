// A backbone family parses its config.json, names the tensors of its weights, and runs one forward
// pass for all tenants of a batch. A family is one file and one name in meson.build's list; no
// other code names it. Families share text_encoder.h and encoder_block.h.
//
// A family knows devices and checkpoints. Requests and results are the runtime's.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backbone/fusion_mode.h"
#include "base/error.h"
#include "device/device.h"
#include "kernels/args.h"
#include "kernels/low_rank_args.h"
#include "model/checkpoint.h"
#include "model/head_spec.h"
#include "model/spec.h"
#include "model/weight_store.h"

namespace itif::backbone {

// The adapters of a batch. Their rows use the weights of the ranges that they lie in; the updates
// are added to the results.
struct PassAdapters {
  std::span<const kernels::AdapterRows> rows = {};  // ascending; empty: no row has an adapter
  // By weight kind: 1 if an adapter of the batch changes one of its modules. Empty: none does.
  std::span<const uint8_t> changed_kinds = {};
  std::span<const uint32_t> first_module = {};  // model::ModuleNumbers::first()

  bool change(size_t kind) const noexcept {
    return kind < changed_kinds.size() && changed_kinds[kind] != 0;
  }
};

// The ranges of a GEMM, and how they share the device.
struct GemmRanges {
  std::span<const kernels::RowRange> ranges;
  kernels::GemmSchedule schedule = {};
};

// GEMMs with fewer ranges than the pass: adjacent ranges whose weights are the same bytes are one
// range, with the slot of the first. All other operators have the ranges of the pass.
struct JoinedGemms {
  std::span<const GemmRanges> all;  // distinct ones
  // By weight kind: 1 + the index into `all` of its GEMM's ranges; 0: those of the pass. Empty: all
  // GEMMs have those.
  std::span<const uint8_t> of_kind = {};
};

// The layout of a batch: rows of all segments end to end, tenants in any order. Host memory, read
// before launch() returns.
struct Pass {
  uint32_t num_rows = 0;
  // Token ids; empty if the family takes images. first_row counts from the batch's first row.
  std::span<const kernels::IdPiece> pieces;
  // One per segment, whose first row is the class token's; empty if the family takes token ids.
  std::span<const kernels::ImagePixels> images = {};
  std::span<const uint32_t> positions;   // [num_rows], from 0 in each segment
  std::span<const uint8_t> token_types;  // [num_rows], or empty: all 0
  std::span<const kernels::SegmentRows> segments;
  // As kernels::Attention's, of the encoder's attention.
  std::span<const kernels::SegmentRows> score_matrices = {};
  std::span<const kernels::RowRange> ranges;  // one per GEMM: rows of a tenant, or of a mini-batch
  // Padded to a graph bucket: ranges are equally long, and the last segments and score matrices
  // may be empty.
  bool has_bucket = false;
  // Decoders: a later pass before the same event still reads inputs, so this pass must not call
  // Stream::end_inputs().
  bool has_more_inputs = false;
  kernels::GemmSchedule gemm_schedule = {};
  JoinedGemms joined = {};
  PassAdapters adapters = {};

  // Returns the ranges of the GEMM whose weight is of that kind.
  GemmRanges gemm(size_t kind) const noexcept {
    if (kind < joined.of_kind.size() && joined.of_kind[kind] > 0)
      return joined.all[joined.of_kind[kind] - 1];
    return {ranges, gemm_schedule};
  }
};

// Device memory, valid until the next launch().
struct Hidden {
  const void* rows = nullptr;  // act [num_rows, hidden]
  // [num_rows]; -1: the id is outside the group's vocabulary; nullptr: the family takes images.
  const int32_t* ids = nullptr;
};

// Owns the workspace for passes of up to MakeOptions::max_rows rows. One thread at a time.
class Backbone {
 public:
  virtual ~Backbone() = default;
  // Queues the forward pass. The results are complete once the stream is synchronized.
  virtual Hidden launch(device::Stream& stream, const model::WeightView& weights,
                        const Pass& pass) noexcept = 0;
  virtual uint64_t workspace_bytes() const = 0;
};

struct MakeOptions {
  uint32_t max_rows = 0;
  // The weight kinds must have the same fusion mode: weight_kinds() below.
  FusionMode fusion_mode = FusionMode::kFused;
};

// A GEMM of the forward pass, and how often one pass runs it.
struct GemmUse {
  device::GemmShape shape;
  uint32_t times = 1;
  uint32_t num_weights = 0;  // distinct weights, used round robin; 0: as many as times
  bool in_step = false;      // decoders: runs over a step's live beams, not over a pass's tokens
};

// A backbone with a well-known name: "bert-base".
struct Preset {
  std::string_view name;
  model::BackboneSpec spec;
};

class Decoder;
struct DecoderOptions;

struct Family {
  std::string_view model_type;  // as in config.json and BackboneSpec::family
  model::HeadLayout heads;
  std::vector<Preset> presets;
  // Convert config.json to a spec and back. `origin` names the file in errors. Errors:
  // kInvalidArgument (a field missing, of the wrong type or out of range), kUnsupported (an
  // unimplemented setting that would change the computation, by name).
  Result<model::BackboneSpec> (*parse)(const nlohmann::json& config, const std::string& origin);
  nlohmann::ordered_json (*config)(const model::BackboneSpec& spec);
  // Lists a tenant's weight kinds in a fixed order. The spec gives the number of rows of tables.
  std::vector<model::WeightKind> (*weight_kinds)(const model::BackboneSpec& spec);
  // Returns the name in checkpoints of a tensor that transformers' newer code names otherwise;
  // adapters have the code's names. nullptr: all names are the same.
  std::string (*stored_name)(const std::string& name) = nullptr;
  // Checks tensors that the weight kinds do not read; nullptr: there are none. Errors:
  // kUnsupported, naming a tensor that would change the computation; those of Checkpoint::read.
  Status (*check_tensors)(const model::BackboneSpec& spec,
                          const model::Checkpoint& checkpoint) = nullptr;
  std::vector<GemmUse> (*gemms)(const model::BackboneSpec& spec);
  // Allocates the workspace and prepares the device's GEMMs. Errors: kResourceExhausted,
  // kUnsupported.
  Result<std::unique_ptr<Backbone>> (*make)(device::Device& device, const model::BackboneSpec& spec,
                                            const MakeOptions& options);
  // Replaces `make` (nullptr) in a family that generates (decoder.h).
  Result<std::unique_ptr<Decoder>> (*make_decoder)(device::Device& device,
                                                   const model::BackboneSpec& spec,
                                                   const DecoderOptions& options) = nullptr;
};

// Returns a family's weight kinds for a fusion mode. In thesis mode, modules that fused mode stacks
// into one GEMM are separate GEMMs.
std::vector<model::WeightKind> weight_kinds(const Family& family, const model::BackboneSpec& spec,
                                            FusionMode fusion_mode);
// Returns the GEMMs of a pass in a fusion mode.
std::vector<GemmUse> gemms(const Family& family, const model::BackboneSpec& spec,
                           FusionMode fusion_mode);

// All families, in alphabetical order.
std::span<const Family* const> families();
// Errors: kUnsupported, listing the families.
Result<const Family*> find_family(std::string_view model_type);
// Finds a preset of any family. Errors: kNotFound, listing the presets.
Result<const Preset*> find_preset(std::string_view name);
std::string preset_names();  // "albert-base, albert-large, …"

}  // namespace itif::backbone
