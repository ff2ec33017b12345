// The tenant service's loaded models: what they are, and the end of their slots.
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/result_bytes.h"
#include "serving/tenant_service.h"
#include "wire/payload.h"

namespace itif::serving {
namespace {

// Limits the text of one request. Not a limit on tokens: truncation makes long texts legal.
constexpr uint32_t kTextBytesPerToken = 32;

uint16_t kind_bit(wire::PayloadKind kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}

// Sets the payload kinds that the model accepts, and the length above which a payload of any kind
// is too long.
void set_payloads(const model::TenantModel& model, uint16_t& kinds, uint32_t& max_bytes) {
  using wire::PayloadKind;
  if (model.spec.takes_images()) {
    kinds = kind_bit(PayloadKind::kImageF32);
    max_bytes = static_cast<uint32_t>(std::min<uint64_t>(
        sizeof(wire::ImagePrefix) + 4 * model.spec.image.values(), wire::kMaxTotalBytes));
    if (!model.images) return;
    kinds |= kind_bit(PayloadKind::kImageU8);
    if (model.images->resize) max_bytes = wire::kMaxTotalBytes;
    return;
  }
  kinds = kind_bit(PayloadKind::kTokensU16) | kind_bit(PayloadKind::kTokensU32);
  max_bytes = model.max_tokens * 4;
  if (!model.tokenizer) return;
  kinds |= kind_bit(PayloadKind::kText);
  max_bytes = model.max_tokens * kTextBytesPerToken;
}

}  // namespace

Result<TenantService::Model> TenantService::describe(uint16_t number, uint32_t slot,
                                                     const tenant::Record& record,
                                                     const tenant::Version& version,
                                                     tenant::Contents contents) {
  const runtime::Group& group = stages_[number]->group();
  const model::TenantModel& model = *group.model(slot);
  Model loaded;
  loaded.contents = std::move(contents);
  loaded.served.version = version.number;
  loaded.served.group = number;
  loaded.served.slot = slot;
  loaded.served.max_tokens = model.max_tokens;
  set_payloads(model, loaded.served.payload_kinds, loaded.served.max_payload_bytes);
  const size_t num_rows = pipeline_.workers().size() + 1;  // and that of the samples' requests
  loaded.served.lease = std::make_shared<tenant::Lease>(num_rows);
  loaded.served.lease->counts = counts_of(record.id, version.number);
  loaded.info = {
      .group = stages_[number]->name(),
      .backbone = model::describe(model.spec),
      .head = model::describe(model.head.spec, model.spec),
      .labels = std::make_shared<const std::vector<std::string>>(model.head.spec.labels),
      .result_kind = wire::result_kind_name(runtime::default_result_kind(model.head.spec)),
      .max_tokens = model.max_tokens,
      .weight_bytes = model.weight_bytes,
      .adapter_bytes = model.adapter_bytes,
      .shared_bytes = group.workspace_bytes()};
  return loaded;
}

void TenantService::unload(const Model& model) {
  free_slot(model.served.group, model.served.slot);
}

void TenantService::free_slot(uint16_t group, uint32_t slot) {
  loaders_.run([&] { stages_[group]->group().release(slot); });
  --num_slots_[group];
  drop_group_if_empty(group);
}

}  // namespace itif::serving
