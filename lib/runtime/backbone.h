// The forward pass of a backbone family, from token ids to the last hidden states, for all tenants of
// a batch at once. One file a family (bert.cc), one row in backbone.cc's table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "kernels/args.h"
#include "model/spec.h"
#include "model/weight_store.h"

namespace itif::runtime {

// A batch laid out: rows of all segments end to end, tenants ascending. Host memory; read before
// forward() returns.
struct BackboneInputs {
  uint32_t num_tokens = 0;
  std::span<const kernels::IdPiece> pieces;   // first_row counts from the batch's first row
  std::span<const uint32_t> positions;        // [num_tokens]
  std::span<const uint8_t> token_types;       // [num_tokens], or empty: all 0
  std::span<const uint32_t> offsets;          // [num_segments + 1]
  std::span<const kernels::RowRange> ranges;  // one a tenant
};

// Device memory, valid until the next forward().
struct BackboneOutputs {
  const void* hidden = nullptr;  // act [num_tokens, hidden]
  const int32_t* ids = nullptr;  // [num_tokens]; -1 where an id was out of the group's vocabulary
};

// Owns the workspace for batches of up to max_tokens rows. One thread at a time.
class Backbone {
 public:
  virtual ~Backbone() = default;
  virtual BackboneOutputs forward(device::Stream& stream, const model::WeightStore& weights,
                                  const BackboneInputs& inputs) noexcept = 0;
  virtual uint64_t workspace_bytes() const = 0;
};

struct Family {
  std::string_view name;  // BackboneSpec::family
  // What a tenant's weights are, in a fixed order; tables are as long as the spec says.
  std::vector<model::WeightKind> (*weight_kinds)(const model::BackboneSpec& spec);
  // Allocates the workspace and prepares the device's GEMMs. Errors: kResourceExhausted.
  Result<std::unique_ptr<Backbone>> (*make)(device::Device& device, const model::BackboneSpec& spec,
                                            uint32_t max_tokens);
};

// Errors: kUnsupported, with the families that there are.
Result<const Family*> find_family(std::string_view name);

extern const Family kBertFamily;

}  // namespace itif::runtime
