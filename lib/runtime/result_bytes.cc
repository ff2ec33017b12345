#include "runtime/result_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace itif::runtime {

using model::HeadKind;
using model::HeadSpec;
using model::Problem;
using wire::ResultKind;

namespace {

// Encodes entries with only their names: the length does not depend on the other fields.
uint64_t classes_bytes(const HeadSpec& head) noexcept {
  uint64_t bytes = 0;
  for (const std::string& label : head.labels) {
    const wire::ClassEntry entry{0, 0, label};
    bytes += wire::encoded_classes_bytes({&entry, 1});
  }
  return bytes;
}

}  // namespace

ResultKind default_result_kind(const HeadSpec& head) noexcept {
  switch (head.kind) {
    case HeadKind::kHidden: return ResultKind::kHidden;
    case HeadKind::kPooler: return ResultKind::kPooled;
    case HeadKind::kEmbedding: return ResultKind::kEmbedding;
    case HeadKind::kClassification:
      return head.problem == Problem::kRegression ? ResultKind::kLogits : ResultKind::kClasses;
    case HeadKind::kTokenClassification: return ResultKind::kTokenLogits;
    case HeadKind::kGeneration: return ResultKind::kText;  // kTokens if the payload is ids
  }
  return ResultKind::kHidden;
}

bool supports(const HeadSpec& head, ResultKind kind) noexcept {
  switch (kind) {
    case ResultKind::kDefault: return true;
    case ResultKind::kHidden: return head.kind != HeadKind::kGeneration;
    case ResultKind::kPooled: return head.answers_pooled;
    case ResultKind::kEmbedding: return head.kind == HeadKind::kEmbedding;
    case ResultKind::kLogits: return head.kind == HeadKind::kClassification;
    case ResultKind::kClasses:
      return head.kind == HeadKind::kClassification && head.problem != Problem::kRegression;
    case ResultKind::kTokenLogits: return head.kind == HeadKind::kTokenClassification;
    case ResultKind::kTokens:
    case ResultKind::kText: return head.kind == HeadKind::kGeneration;
  }
  return false;
}

uint64_t result_bytes(const HeadSpec& head, uint32_t hidden_size, ResultKind kind,
                      uint32_t num_tokens) noexcept {
  const uint64_t labels = head.labels.size();
  switch (kind) {
    case ResultKind::kDefault:
    case ResultKind::kTokens:
    case ResultKind::kText: break;
    case ResultKind::kHidden: return uint64_t{num_tokens} * hidden_size * sizeof(float);
    case ResultKind::kPooled: return hidden_size * sizeof(float);
    case ResultKind::kEmbedding:
      return (head.dense.empty() ? hidden_size : head.dense.back().n) * sizeof(float);
    case ResultKind::kLogits: return labels * sizeof(float);
    case ResultKind::kTokenLogits: return num_tokens * labels * sizeof(float);
    case ResultKind::kClasses: return classes_bytes(head);
  }
  return 0;
}

uint32_t result_rows(const HeadSpec& head, ResultKind kind, uint32_t num_tokens) noexcept {
  switch (kind) {
    case ResultKind::kHidden:
    case ResultKind::kTokenLogits: return num_tokens;
    case ResultKind::kClasses: return static_cast<uint32_t>(head.labels.size());
    default: return 1;
  }
}

void to_probabilities(std::span<float> logits, Problem problem) noexcept {
  if (problem == Problem::kMultiLabel) {
    for (float& x : logits) x = 1.0f / (1.0f + std::exp(-x));
  } else {
    const float most = std::ranges::max(logits);
    double sum = 0;
    for (float& x : logits) sum += x = std::exp(x - most);
    for (float& x : logits) x = static_cast<float>(x / sum);
  }
  // Non-finite values of a model with broken weights would break the sort of the classes.
  for (float& x : logits)
    if (!std::isfinite(x)) x = 0;
}

void write_classes(const HeadSpec& head, std::span<const float> probabilities,
                   std::span<wire::ClassEntry> entries, std::span<std::byte> out) noexcept {
  for (uint32_t i = 0; i < entries.size(); ++i) entries[i] = {i, probabilities[i], head.labels[i]};
  std::ranges::sort(entries, [](const wire::ClassEntry& a, const wire::ClassEntry& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.index < b.index;
  });
  CHECK(wire::encode_classes(entries, out) == out.size());
}

void normalize(std::span<float> vector) noexcept {
  double sum = 0;
  for (float x : vector) sum += static_cast<double>(x) * x;
  // sentence-transformers divides by max(|x|, 1e-12).
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& x : vector) x = static_cast<float>(x / length);
}

request::ResultBuffer copy_of(std::span<const std::byte> bytes) noexcept {
  request::ResultBuffer result;
  result.data = static_cast<std::byte*>(std::malloc(std::max<size_t>(1, bytes.size())));
  if (result.data == nullptr) return result;
  if (!bytes.empty()) std::memcpy(result.data, bytes.data(), bytes.size());
  result.bytes = static_cast<uint32_t>(bytes.size());
  return result;
}

}  // namespace itif::runtime
