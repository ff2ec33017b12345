#include "runtime/admitted_tenant.h"

namespace itif::runtime {

using model::HeadKind;

namespace {

// Returns the number of classifier outputs of the largest batch.
uint64_t logit_count(const model::HeadSpec& head, const GroupOptions& options) noexcept {
  if (head.classifier.empty()) return 0;
  const uint64_t rows =
      head.kind == HeadKind::kTokenClassification ? options.max_tokens : options.max_requests;
  return rows * head.labels.size();
}

}  // namespace

uint64_t HeadScratch::bytes_of(const model::HeadSpec& head, const GroupOptions& options) {
  uint64_t floats = logit_count(head, options);
  for (const model::LinearSpec& dense : head.dense)
    floats += uint64_t{options.max_requests} * dense.n;
  return floats * sizeof(float);
}

Result<HeadScratch> HeadScratch::make(device::Device& device, const model::HeadSpec& head,
                                      const GroupOptions& options) {
  HeadScratch scratch;
  const uint64_t labels = head.labels.size();
  if (const uint64_t count = logit_count(head, options); count > 0) {
    ITIF_ASSIGN(scratch.logits, device.allocate(count * sizeof(float)));
    if (head.kind != HeadKind::kTokenClassification) {
      for (std::vector<float>& logits : scratch.host_logits) logits.resize(count);
      scratch.classes.resize(labels);
    }
  }
  for (const model::LinearSpec& dense : head.dense) {
    ITIF_ASSIGN(auto buffer,
                device.allocate(uint64_t{options.max_requests} * dense.n * sizeof(float)));
    scratch.dense.push_back(std::move(buffer));
  }
  return scratch;
}

uint64_t HeadScratch::bytes() const {
  uint64_t bytes = logits ? logits->bytes() : 0;
  for (const auto& buffer : dense) bytes += buffer->bytes();
  return bytes;
}

}  // namespace itif::runtime
